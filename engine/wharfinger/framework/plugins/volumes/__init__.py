"""The plugins that look at a pod's volumes; `volume_claims` reads the claims for all of them."""

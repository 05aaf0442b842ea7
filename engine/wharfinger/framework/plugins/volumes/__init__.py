"""The plugins for a pod's volumes; `volume_claims` reads the claims for all of them."""

"""The dashboard and the alert rules in `deploy/`, made from the declarations of metrics."""

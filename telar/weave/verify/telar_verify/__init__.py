"""The harness of `telar weave --verify`: runs a sequential script and its woven form, and compares them."""

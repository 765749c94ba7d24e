"""What speaks to servers: blocking code that trusts none of them."""

"""What speaks to database servers: blocking code that trusts none of them."""

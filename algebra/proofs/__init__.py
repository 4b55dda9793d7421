"""What follows from a condition or from a segment's facts, by sound and incomplete proofs."""

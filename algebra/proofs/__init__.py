"""Proofs of what follows from conditions and from a segment's facts: sound, but not complete."""

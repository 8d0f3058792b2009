package events

// Murmur2 is the hash behind Home.
var Murmur2 = murmur2

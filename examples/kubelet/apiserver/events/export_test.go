package events

// Leaving is leaving, for tests: the server of the tests has no namespaces.
var Leaving = leaving

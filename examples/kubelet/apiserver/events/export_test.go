package events

// Leaving exports leaving, because the server of the tests has no namespaces.
var Leaving = leaving

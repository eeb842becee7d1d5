// Package sources turns what a pod's spec says of a volume's content into files: the
// keys of a config map or a secret, fields of the pod, a token, certificates. The
// plugins for such volumes share it, since a projected volume has sources of all kinds.
//
// Errors name the field of the source that is wrong, or the object. An object that is
// optional and does not exist has no files; one of which nothing is known is an error
// also if it is optional.
//
// An example that runs: ExampleSecret in example_test.go.
package sources

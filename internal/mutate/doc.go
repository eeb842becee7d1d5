// Package mutate breaks Go sources in small ways, to see whether the tests notice.
// Of finds the ways, Run tries one: the sources stay as they are, the broken one is
// handed to the compiler as an overlay. Only tests and examples/mutate import it.
package mutate

// Package mutate breaks Go sources in small ways, to see whether the tests notice.
// Of finds the ways. Combine puts many of them into the sources of a package, each
// behind a switch, and Build compiles its tests once for all: the sources stay as
// they are, the broken ones are handed to the compiler as an overlay. Only tests and
// examples/mutate import it.
package mutate

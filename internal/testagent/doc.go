// Package testagent is what tests of whole agents share: a runtime whose calls can be
// held up and lost, and commands in containers that answer as they are told.
package testagent

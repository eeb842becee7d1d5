// Package testagent has shared parts of tests of whole agents: a node with a runtime whose calls
// can be held up and lost, pods, and commands in containers whose exit codes a test sets.
package testagent

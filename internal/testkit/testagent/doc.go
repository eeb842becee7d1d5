// Package testagent has shared parts for tests of complete agents: a node with a runtime whose
// calls can be delayed and lost, pods, and commands in containers whose exit codes a test sets.
package testagent

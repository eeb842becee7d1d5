//go:build !race

package e2e_test

// race is true if the tests, and thus the kubelet that they start, have the race detector.
const race = false

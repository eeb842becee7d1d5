//go:build race

package e2e_test

// raceFlags build the kubelet like the test that runs it.
var raceFlags = []string{"-race"}

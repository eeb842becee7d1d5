package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// again are the tests that are to be run once more, alone, when they alone have failed. What a
// second run could hide is not repeated: a data race, a panic, and what does not build.
type again struct {
	failed []string            // of the package whose output is being read
	tests  map[string][]string // by package
	never  bool
}

// repeated are the tests of which that is known, and why.
var repeated = map[string]string{
	"TestManySessions":        "100 sessions of two runtimes share two cores with an API server",
	"TestOutagesOfTheNetwork": "what it waits for has some minutes on the same cores",
	"TestBehaviour":           "120 pods come in one go: where processes start slowly, they did not in two minutes",
}

var (
	failedTest    = regexp.MustCompile(`^--- FAIL: (\w+) `)
	failedPackage = regexp.MustCompile(`^FAIL\s+(\S+/\S+)`)
	neverAgain    = regexp.MustCompile(`^panic: |^fatal error: |^WARNING: DATA RACE|race detected during`)
)

func (a *again) line(line string) {
	if m := failedTest.FindStringSubmatch(line); m != nil {
		a.failed = append(a.failed, m[1])
	}
	a.never = a.never || neverAgain.MatchString(line)
	if m := failedPackage.FindStringSubmatch(line); m != nil {
		if a.tests == nil {
			a.tests = map[string][]string{}
		}
		a.tests[m[1]] = a.failed
		a.never = a.never || len(a.failed) == 0
		a.failed = nil
	}
}

// take returns the arguments of go test that repeat what has failed since the last call, for
// each package; ok is false if that is not to be repeated.
func (a *again) take() (runs [][]string, ok bool) {
	ok = !a.never && len(a.tests) > 0
	for _, pkg := range slices.Sorted(maps.Keys(a.tests)) {
		for _, test := range a.tests[pkg] {
			ok = ok && repeated[test] != ""
		}
		runs = append(runs, []string{"-run=^(" + strings.Join(a.tests[pkg], "|") + ")$", pkg})
	}
	*a = again{}
	return runs, ok
}

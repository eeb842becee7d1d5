package podworkerstest

import (
	"strings"
	"testing"
	"testing/synctest"
)

// Violated plays the standard lives and returns the rules that were violated.
func Violated(t *testing.T, newSubject func(t *testing.T) Subject) (rules []string) {
	for _, life := range lives() {
		synctest.Test(t, func(t *testing.T) {
			a := newAgent(t, newSubject(t))
			life.play(a)
			a.end()
			for _, err := range a.errs {
				rules = append(rules, rulesOf(err)...)
				if strings.Contains(err.Error(), "%!") {
					t.Error(err)
				}
			}
		})
	}
	return rules
}

func rulesOf(err error) (rules []string) {
	switch e := err.(type) {
	case Violation:
		return []string{e.Rule}
	case interface{ Unwrap() error }:
		return rulesOf(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			rules = append(rules, rulesOf(one)...)
		}
	}
	return rules
}

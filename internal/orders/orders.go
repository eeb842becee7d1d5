// Package orders runs every sequence of a few steps, for suites that test a kill between any two
// of them.
package orders

import (
	"fmt"
	"strings"
)

// Step is one action on a subject.
type Step[S any] struct {
	Name string
	Play func(S) error
	// Kill marks a step that only restarts the subject from its stored state. Sequences without
	// effect are skipped: with the kill first, last, or twice in a row.
	Kill bool
}

// Each runs every sequence of the given length, each with a new subject from begin. After the
// last step it calls end with the names of all steps. An error of a step is returned after the
// names of the steps up to it; an error of end is returned unchanged.
func Each[S any](steps []Step[S], length int, begin func() S, end func(s S, played string) error) error {
	var walk func(path []int) error
	walk = func(path []int) error {
		if len(path) == length {
			return play(steps, path, begin(), end)
		}
		for i := range steps {
			if steps[i].Kill && (len(path) == 0 || len(path) == length-1 || path[len(path)-1] == i) {
				continue
			}
			if err := walk(append(path, i)); err != nil {
				return err
			}
		}
		return nil
	}
	return walk(nil)
}

func play[S any](steps []Step[S], path []int, s S, end func(s S, played string) error) error {
	var names []string
	for _, i := range path {
		names = append(names, steps[i].Name)
		if err := steps[i].Play(s); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(names, "; "), err)
		}
	}
	return end(s, strings.Join(names, "; "))
}

// Package orders plays every sequence of a few steps, for suites that have to know what
// a kill between any two of them does.
package orders

import (
	"fmt"
	"strings"
)

// Step is something that is done with a subject.
type Step[S any] struct {
	Name string
	Play func(S) error
	// Kill tells that nothing is done but to go on with what is on disk: it is left out
	// at both ends of a sequence and behind itself, where that is the case anyhow.
	Kill bool
}

// Each plays every sequence of length steps, each with a subject of its own: begin makes
// it, and end is called after the last step with the names of all. The error of a step
// follows the names of the steps up to it; that of end is returned as it is.
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

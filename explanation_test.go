package podwright_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright"
)

func ExampleExplanation() {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e := podwright.Explanation{Part: "image db:2", Step: "pull", Since: now.Add(-12 * time.Second), Err: errors.New("connection reset")}
	fmt.Println(e)
	fmt.Println(e.At(now))
	// Output:
	// image db:2: pull since 2026-01-02T03:03:53Z, last error: connection reset
	// image db:2: pull for 12s, last error: connection reset
}

func TestExplanation(t *testing.T) {
	now := time.Now()
	ago, soon, err := now.Add(-time.Minute), now.Add(time.Second), errors.New("broken")
	for want, e := range map[string]podwright.Explanation{
		"x: ready":                                   {},
		"x: ready for 1m0s":                          {Since: ago},
		"x: it waits for Run for 1m0s":               {Why: "it waits for Run", Since: ago},
		"x: mount for 1m0s, its timeout has expired": {Step: "mount", Since: ago, Why: "its timeout has expired"},
		"x: it waits, last error: broken":            {Why: "it waits", Err: err},
		"x: last error: broken, next try in 1s":      {Err: err, Since: ago, NextTry: soon},
		"x: it has ended, next try in 1s":            {Why: "it has ended", NextTry: soon},
	} {
		e.Part = "x"
		require.Equal(t, want, e.At(now))
	}
}

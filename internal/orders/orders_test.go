package orders_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/podwright/podwright/internal/orders"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEach(t *testing.T) {
	step := func(name string, kill bool) orders.Step[*string] {
		return orders.Step[*string]{Name: name, Kill: kill, Play: func(s *string) error { *s += name; return nil }}
	}
	var did, played []string
	err := orders.Each([]orders.Step[*string]{step("a", false), step("k", true)}, 4,
		func() *string { return new(string) },
		func(s *string, names string) error { did, played = append(did, *s), append(played, names); return nil })
	require.NoError(t, err)
	require.Equal(t, []string{"aaaa", "aaka", "akaa"}, did)
	require.Equal(t, []string{"a; a; a; a", "a; a; k; a", "a; k; a; a"}, played)
}

func TestErrors(t *testing.T) {
	odd := errors.New("odd")
	n := 0
	steps := []orders.Step[int]{{Name: "a", Play: func(int) error {
		if n++; n == 2 {
			return odd
		}
		return nil
	}}}
	begin, end := func() int { return 0 }, func(int, string) error { return odd }
	err := orders.Each(steps, 3, begin, end)
	require.ErrorIs(t, err, odd)
	require.EqualError(t, err, "a; a: odd")
	require.Equal(t, odd, orders.Each(steps, 1, begin, end))
}

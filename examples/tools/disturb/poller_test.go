package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPoller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		// A failed read lasts from 2 s to 4 s, and the field changes at 1 s and 3 s.
		get := func(context.Context, string) ([]byte, error) {
			switch since := time.Since(begin); {
			case since >= 2*time.Second && since < 4*time.Second:
				return nil, errors.New("the API server is away")
			case since >= 3*time.Second:
				return []byte("c"), nil
			case since >= time.Second:
				return []byte("b"), nil
			}
			return []byte("a"), nil
		}
		p, err := startPoller(t.Context(), get, []resource{{"/x", func(body []byte) (objects, error) {
			return objects{"x": {"field": {text: string(body)}}}, nil
		}}})
		require.NoError(t, err)
		time.Sleep(5*time.Second + time.Millisecond)
		p.add(transition{Object: "agent"})
		all, remaining := p.stop()
		require.Equal(t, []transition{
			{After: time.Second, Object: "x", Field: "field", From: "a", To: "b"},
			{After: 4 * time.Second, Object: "x", Field: "field", From: "b", To: "c"},
			{After: 5*time.Second + time.Millisecond, Object: "agent"},
		}, all)
		require.Equal(t, []string{"x, field: a → c"}, texts(remaining))
	})
}

func TestPollerNeedsFirstRead(t *testing.T) {
	_, err := startPoller(t.Context(), func(context.Context, string) ([]byte, error) { return nil, errors.New("failed") }, []resource{{"/x", nodeObjects}})
	require.ErrorContains(t, err, "/x: failed")
}

package images

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// A pod that is gone leaves nothing behind, and takes nothing of another with it.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService()
		for _, image := range []string{"a:1", "b:1"} {
			s.set(image, errors.New("no such host"))
		}
		m := newManager(t, Config{Service: s, QPS: -1})
		for _, pod := range []string{"1", "11"} {
			for _, image := range []string{"a:1", "b:1"} {
				require.Error(t, get(t, m, pod, image, ""))
			}
		}
		require.NotEmpty(t, m.Explain("1"))
		m.Forget("1")
		require.Empty(t, m.Explain("1"))
		require.NotEmpty(t, m.Explain("11"))
		require.Len(t, m.history.last, 2)
		require.Equal(t, 2, m.history.delays.Len())
		_, err := m.Ensure(t.Context(), request("1", "a:1", ""))
		require.ErrorContains(t, err, "no such host", "nothing holds back a pod that is new")
		m.Forget("1")
		m.Forget("11")
		m.Forget("never seen")
		require.Empty(t, m.history.last)
		require.Zero(t, m.history.delays.Len())
	})
}

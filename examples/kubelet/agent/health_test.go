package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A change of the runtime's readiness updates the Node at once, not at the next status period.
func TestNodeFollowsTheRuntimesHealth(t *testing.T) {
	inCluster(t, func(w *world) {
		w.startFor(20 * time.Second)
		for _, ok := range []bool{true, false, true} {
			require.NoError(t, w.runtime.SetCondition(runtimeapi.RuntimeReady, ok, "Test", "as demanded"))
			begun := time.Now()
			for w.agent.health.Health().RuntimeReady.Ready() != ok {
				w.Sleep(100 * time.Millisecond)
				require.Less(t, time.Since(begun), 6*time.Second, "the poll")
			}
			w.Sleep(200 * time.Millisecond)
			require.Contains(t, w.nodeCondition(v1.NodeReady), map[bool]string{true: "True ", false: "False "}[ok])
			w.Sleep(1300 * time.Millisecond)
		}
	})
}

type upgraded struct {
	version string
	err     error
}

func (u *upgraded) Status(context.Context, bool) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{}, u.err
}

func (u *upgraded) Version(context.Context) (*runtimeapi.VersionResponse, error) {
	if u.version == "" {
		return nil, errors.New("not now")
	}
	return &runtimeapi.VersionResponse{RuntimeVersion: u.version}, nil
}

// The version is current. It stays while the runtime does not report one.
func TestReleaseOfTheRuntime(t *testing.T) {
	u := &upgraded{version: "1.6"}
	first := "1.5"
	r := &release{versioned: u}
	r.version.Store(&first)
	for _, step := range []struct {
		version string
		err     error
		want    string
	}{
		{"1.6", errors.New("away"), "1.5"}, {"1.6", nil, "1.6"}, {"", nil, "1.6"}, {"2.2", nil, "2.2"},
	} {
		u.version, u.err = step.version, step.err
		_, err := r.Status(t.Context(), false)
		require.Equal(t, step.err, err)
		require.Equal(t, step.want, *r.version.Load())
	}
}

// The Node reports runtime versions in the format of other kubelets.
func TestPlainVersion(t *testing.T) {
	for text, want := range map[string]string{
		"1.6.20~ds1": "1.6.20", "2.2.1+unknown": "2.2.1+unknown", "v2.0.0-rc.1": "2.0.0-rc.1", "1.30": "1.30", "1.7.1.2": "1.7.1.2", "of mine": "of mine", "": "",
	} {
		require.Equal(t, want, plainVersion(text), text)
	}
}

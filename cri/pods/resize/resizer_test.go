package resize

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/pleg"
)

func TestNewRefuses(t *testing.T) {
	runtime, requests := struct{ cri.ResourceUpdater }{}, &request.Builder{}
	for text, cfg := range map[string]Config{
		"Config.Runtime is missing":    {Requests: requests},
		"Config.Requests is missing":   {Runtime: runtime},
		"Config.StepGrace is negative": {Runtime: runtime, Requests: requests, StepGrace: -time.Second},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, text)
	}
}

// Without a store nothing is recorded, and nothing is known.
func TestRecordWithoutStore(t *testing.T) {
	r, err := Load(nil, "1")
	require.NoError(t, err)
	require.Nil(t, r.Actuated())
	require.NoError(t, r.NoteContainer(nil, nil))
	require.NoError(t, r.NotePod(nil))
}

// slow is a runtime whose calls last until their contexts end.
type slow struct {
	cri.ResourceUpdater
	began func()
	stats func() (*runtimeapi.ContainerStats, error)
}

func (s slow) UpdateContainerResources(ctx context.Context, _ *runtimeapi.UpdateContainerResourcesRequest) error {
	s.began()
	<-ctx.Done()
	return ctx.Err()
}

func (s slow) ContainerStats(context.Context, string) (*runtimeapi.ContainerStats, error) {
	return s.stats()
}

// resizeOne has one container of a pod resized.
func resizeOne(ctx context.Context, t *testing.T, cfg Config, todo actions.Actions) error {
	t.Helper()
	requests, err := request.New(request.Config{})
	require.NoError(t, err)
	cfg.Requests = requests
	r, err := New(cfg)
	require.NoError(t, err)
	record, err := Load(nil, "1")
	require.NoError(t, err)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "1"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
	return r.Resize(ctx, Request{Pod: pod, Status: &pleg.PodStatus{UID: "1"}, Actions: &todo, Record: record})
}

// A call goes on after its context for StepGrace, by default for 5 s.
func TestStepGrace(t *testing.T) {
	for grace, want := range map[time.Duration]time.Duration{0: 5 * time.Second, time.Minute: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			began := time.Now()
			err := resizeOne(ctx, t, Config{Runtime: slow{began: cancel}, StepGrace: grace}, actions.Actions{UpdateCPU: []actions.Update{{Name: "c"}}})
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, want, time.Since(began))
		})
	}
}

// What a container uses is needed to lower its limit of memory. A runtime that fails to
// tell, or tells nothing, is not a container that uses none.
func TestUnknownUsage(t *testing.T) {
	failed := errors.New("no answer")
	lower := actions.Actions{UpdateMemory: []actions.Update{{Name: "c", Want: actions.Amounts{MemoryLimit: 5}, Have: actions.Amounts{MemoryLimit: 9}}}}
	for text, stats := range map[string]func() (*runtimeapi.ContainerStats, error){
		"no answer":                 func() (*runtimeapi.ContainerStats, error) { return nil, failed },
		"the runtime does not tell": func() (*runtimeapi.ContainerStats, error) { return &runtimeapi.ContainerStats{}, nil },
		"it uses 5 bytes": func() (*runtimeapi.ContainerStats, error) {
			return &runtimeapi.ContainerStats{Memory: &runtimeapi.MemoryUsage{WorkingSetBytes: &runtimeapi.UInt64Value{Value: 5}}}, nil
		},
	} {
		err := resizeOne(t.Context(), t, Config{Runtime: slow{stats: stats}}, lower)
		require.ErrorIs(t, err, ErrMemoryInUse, text)
		require.ErrorContains(t, err, text)
		require.Equal(t, text == "no answer", errors.Is(err, failed))
	}
	require.ErrorContains(t, resizeOne(t.Context(), t, Config{Runtime: struct{ cri.ResourceUpdater }{}}, lower), "no statistics")
}

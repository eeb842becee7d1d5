package script

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

// stub knows no objects; its event streams do as they are told.
type stub struct {
	cri.RuntimeService
	cri.ImageService
	events func(ctx context.Context, handle func(*runtimeapi.ContainerEventResponse)) error
}

func (stub) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return nil, errors.New("no")
}

func (stub) ListPodSandbox(context.Context, *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	return nil, nil
}

func (s stub) GetContainerEvents(ctx context.Context, handle func(*runtimeapi.ContainerEventResponse)) error {
	return s.events(ctx, handle)
}

func (stub) Version(context.Context) (*runtimeapi.VersionResponse, error) {
	time.Sleep(time.Second)
	return &runtimeapi.VersionResponse{}, nil
}

// What is removed is remembered for a while, also with its sandbox, and then not.
func TestIdentitiesForget(t *testing.T) {
	ids := newIdentities(stub{})
	ctx := t.Context()
	known := func(id string) bool { return ids.object(ctx, about{container: id}).Container != "" }
	put := func(sandbox, id string) {
		ids.put(id, identity{object: Object{Kind: ContainerKind, Container: id}, sandbox: sandbox})
	}
	for i := range 3 * keptGone {
		sandbox := fmt.Sprint("s", i)
		ids.put(sandbox, identity{object: Object{Kind: SandboxKind, Pod: sandbox}, sandbox: sandbox})
		put(sandbox, fmt.Sprint("a", i))
		put(sandbox, fmt.Sprint("b", i))
		ids.remove(fmt.Sprint("a", i))
		ids.remove(fmt.Sprint("a", i)) // again: counts once
		ids.remove(sandbox)
		require.True(t, known(fmt.Sprint("a", i)))
		require.True(t, known(fmt.Sprint("b", i)))
		require.Equal(t, fmt.Sprint("s", i), ids.object(ctx, about{sandbox: sandbox}).Pod)
		require.LessOrEqual(t, len(ids.known), keptGone)
		if n := i - keptGone/3; n >= 0 { // three objects a round
			require.True(t, known(fmt.Sprint("b", n+1)))
			require.False(t, known(fmt.Sprint("a", n-1)))
		}
	}
	require.Empty(t, ids.members)
	require.Len(t, ids.gone, keptGone)
	put("kept", "kept")
	require.True(t, known("kept"))
	require.False(t, known("unknown"))
}

// The order of deliveries, where rules about several events meet.
func TestDelivery(t *testing.T) {
	late := []Step{Late(10 * time.Second)}
	for name, c := range map[string]struct {
		plans []plan // of events a second apart
		want  string
	}{
		"swapped with a late one":  {[]plan{{steps: []Step{Swap()}}, {steps: late}, {}}, "2@2s 1@11s 0@11s "},
		"swapped with a lost one":  {[]plan{{steps: []Step{Swap()}}, {steps: []Step{Drop()}}, {}}, "2@2s 0@2s "},
		"late ones overtake":       {[]plan{{steps: late}, {steps: []Step{Late(time.Second)}}, {latency: time.Second}}, "1@2s 2@3s 0@10s "},
		"both swapped":             {[]plan{{steps: []Step{Swap()}}, {steps: []Step{Swap()}}, {}}, "2@2s 0@2s 1@2s "},
		"a break loses what waits": {[]plan{{steps: late}, {}, {steps: []Step{Fail(14, "")}}}, "1@1s broken@2s 0@10s "},
		"held up, then twice":      {[]plan{{latency: 5 * time.Second}, {steps: []Step{Twice()}}, {}}, "0@5s 1@5s 1@5s 2@5s "},
	} {
		start := time.Unix(0, 0)
		var d delivery
		got := ""
		for second := range 20 {
			now := start.Add(time.Duration(second) * time.Second)
			if second < len(c.plans) {
				d.add(now, &runtimeapi.ContainerEventResponse{ContainerId: fmt.Sprint(second)}, c.plans[second])
			}
			for {
				p, ok, wait := d.take(now)
				if !ok {
					require.GreaterOrEqual(t, wait, time.Duration(0))
					break
				}
				id := p.event.GetContainerId()
				if p.err != nil {
					id = "broken"
				}
				got += fmt.Sprintf("%s@%v ", id, now.Sub(start))
			}
		}
		require.Equal(t, c.want, got, name)
	}
}

// A stream that takes its time to end is waited for.
func TestStreamIsJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		p, err := New(Config{Runtime: stub{events: func(ctx context.Context, _ func(*runtimeapi.ContainerEventResponse)) error {
			<-ctx.Done()
			time.Sleep(time.Minute)
			ended = true
			return ctx.Err()
		}}, Images: stub{}, Script: Script{Rules: []Rule{On(callEvents, Do(), HangFor(time.Second), Fail(14, "gone"))}}})
		require.NoError(t, err)
		require.ErrorContains(t, p.GetContainerEvents(t.Context(), nil), "gone")
		require.True(t, ended)
	})
}

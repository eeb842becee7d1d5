package probetest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/probetest"
)

func target(container string, typ probe.Type) probe.Target {
	return probe.Target{
		Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}, Container: &v1.Container{Name: container},
		ContainerID: "fake://1", Type: typ,
	}
}

func TestScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &probetest.Prober{}
		broken := errors.New("broken")
		p.Script("web", probe.Liveness,
			probetest.Step{Verdict: probe.Failure, Output: "no", Latency: time.Second},
			probetest.Step{Err: broken})
		ask := func() (probe.Result, error) { return p.Probe(t.Context(), target("web", probe.Liveness)) }
		begin := time.Now()
		res, err := ask()
		require.NoError(t, err)
		require.Equal(t, probe.Result{Verdict: probe.Failure, Output: "no"}, res)
		require.Equal(t, time.Second, time.Since(begin))
		for range 2 {
			_, err = ask()
			require.ErrorIs(t, err, broken)
		}
		res, err = p.Probe(t.Context(), target("web", probe.Readiness))
		require.NoError(t, err)
		require.Equal(t, probe.Success, res.Verdict)
		p.Script("web", probe.Liveness, probetest.Step{Panic: "oh"})
		require.PanicsWithValue(t, "oh", func() { _, _ = ask() })
		require.Len(t, p.CallsOf("web", probe.Liveness), 4)
		require.Equal(t, probetest.Call{
			UID: "u", Container: "web", ContainerID: "fake://1", Began: begin, Ended: begin.Add(time.Second),
		}, p.Calls()[0])
		require.Equal(t, 1, p.Most())
	})
}

func TestTimeoutAndHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &probetest.Prober{}
		p.Script("slow", probe.Liveness, probetest.Step{Verdict: probe.Success, Latency: time.Hour})
		p.Script("stuck", probe.Liveness, probetest.Step{Verdict: probe.Success, Hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := p.Probe(ctx, target("stuck", probe.Liveness))
			done <- err
		}()
		res, err := p.Probe(ctx, target("slow", probe.Liveness))
		require.NoError(t, err)
		require.Equal(t, probe.Failure, res.Verdict)
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
		synctest.Wait()
		require.Empty(t, done, "it ignores its context")
		require.Equal(t, 2, p.Most())
		p.Release()
		require.NoError(t, <-done)
	})
}

func ExampleProber() {
	prober := &probetest.Prober{}
	prober.Script("web", probe.Readiness,
		probetest.Step{Verdict: probe.Failure, Output: "not yet"},
		probetest.Step{Verdict: probe.Success, Output: "ready"})
	for range 3 {
		res, err := prober.Probe(context.Background(), target("web", probe.Readiness))
		fmt.Println(res.Verdict, res.Output, err)
	}
	// Output:
	// Failure not yet <nil>
	// Success ready <nil>
	// Success ready <nil>
}

package lifecycletest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A container that fails at once is started again at once, after 10 s, 20 s and so
// on, up to five minutes, while its neighbour is left alone; a pod that is not
// wanted any more leaves nothing. Ten minutes and some, in a moment.
func TestCrashLoop(t *testing.T) {
	logs := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var crashes []time.Duration
		crash := func(context.Context, *fake.Process) int {
			crashes = append(crashes, time.Since(begin))
			return 3
		}
		runtime, err := fake.New(fake.Config{
			AnyImage: true,
			Programs: fake.ByContainer(map[string]fake.Program{"crash": crash}, fake.SleepUntilStopped),
		})
		require.NoError(t, err)
		defer runtime.Close()
		a := agentOn(t, runtime, logs)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.run(ctx) }()

		require.NoError(t, a.set(&v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "1"},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "crash", Image: "x"}, {Name: "steady", Image: "x"}}},
		}))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Len(t, crashes, 7)
		for i, seconds := range []float64{0, 10, 20, 40, 80, 160} {
			pause := (crashes[i+1] - crashes[i]).Seconds()
			require.GreaterOrEqual(t, pause, seconds)
			require.LessOrEqual(t, pause, 1+1.5*seconds, "half of it for jitter")
		}
		require.ErrorContains(t, a.workers.State("1").LastError, "back-off 5m0s restarting failed container=crash")
		containers, err := runtime.ListContainers(ctx, nil)
		require.NoError(t, err)
		steady := 0
		for _, c := range containers {
			if c.Metadata.Name == "steady" {
				steady++
				require.Zero(t, c.Metadata.Attempt)
			}
		}
		require.Equal(t, 1, steady)

		require.NoError(t, a.set())
		time.Sleep(time.Minute)
		synctest.Wait()
		sandboxes, err := runtime.ListPodSandbox(ctx, nil)
		require.NoError(t, err)
		require.Empty(t, sandboxes)
		require.Empty(t, a.workers.Pods())
		stop()
		require.NoError(t, <-done)
	})
}

func agentOn(t *testing.T, runtime *fake.Runtime, logs string) *agent {
	puller, err := images.New(images.Config{Service: runtime})
	require.NoError(t, err)
	manager, err := pods.New(pods.Config{Runtime: runtime, Images: puller, RuntimeName: "fake", LogRoot: logs})
	require.NoError(t, err)
	a, err := newAgent(manager)
	require.NoError(t, err)
	return a
}

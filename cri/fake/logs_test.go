package fake_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
)

func TestLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		logs, step := &memoryLogs{}, make(chan struct{})
		rt := start(t, fake.Config{AnyImage: true, OpenLog: logs.open, Programs: fake.Always(
			func(_ context.Context, p *fake.Process) int {
				fmt.Fprint(p.Stdout, "one\r\ntwo")
				fmt.Fprint(p.Stderr, "problem\n")
				<-step
				fmt.Fprint(p.Stdout, " and a half\n\n"+strings.Repeat("x", 16<<10)+"y\nunfinished")
				return 0
			})})
		pod := podConfig("p")
		pod.LogDirectory = "/logs"
		sandboxID, err := rt.RunPodSandbox(ctx, pod, "")
		require.NoError(t, err)
		config := containerConfig("p", "c")
		config.LogPath = "c/0.log"
		id, err := rt.CreateContainer(ctx, sandboxID, config, pod)
		require.NoError(t, err)
		require.Equal(t, codes.FailedPrecondition, status.Code(rt.ReopenContainerLog(ctx, id)))
		at := time.Now().UTC().Format(time.RFC3339Nano)
		require.NoError(t, rt.StartContainer(ctx, id))
		synctest.Wait()
		require.Equal(t, "/logs/c/0.log", statusOf(t, rt, id).LogPath)
		require.Equal(t, at+" stdout F one\n"+at+" stderr F problem\n", logs.text("/logs/c/0.log"))

		before := logs.files["/logs/c/0.log"]
		require.NoError(t, rt.ReopenContainerLog(ctx, id))
		require.True(t, before.closed)
		close(step)
		synctest.Wait()
		require.Equal(t, at+" stdout F two and a half\n"+at+" stdout F \n"+
			at+" stdout P "+strings.Repeat("x", 16<<10)+"\n"+at+" stdout F y\n"+
			at+" stdout P unfinished\n", logs.text("/logs/c/0.log"))
		require.True(t, logs.files["/logs/c/0.log"].closed)
		require.Equal(t, 2, logs.opens)
		require.True(t, cri.IsNotFound(rt.ReopenContainerLog(ctx, "nope")))
	})
}

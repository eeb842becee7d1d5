package cri_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
)

// Whatever call a runtime lacks, the caller can tell, nobody is bothered with a
// log line, and the rest works.
func TestUnimplementedCalls(t *testing.T) {
	for _, c := range everyCall() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				n := newNode(t, nodeConfig{
					script: fmt.Sprintf("%sfrom the 1st %s: Unimplemented %q", dialled, c.name, "unknown method "+c.name),
					client: cri.ClientConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))},
				})
				for range 2 {
					err := c.make(t.Context(), n)
					e := requireCallFailed(t, err, c.name, c.objectOf(n))
					require.True(t, cri.IsUnimplemented(fmt.Errorf("pod: %w", err)))
					require.False(t, cri.IsNotFound(err))
					require.Equal(t, "unknown method "+c.name, e.Message())
				}
				require.Empty(t, log.String())
				for _, other := range everyCall() {
					if other.name == c.name || strings.HasPrefix(other.name, "Re") || other.name == "GetContainerEvents" {
						continue
					}
					_ = other.make(t.Context(), n)
				}
				require.NotContains(t, log.String(), "call="+c.name+" ")
			})
		})
	}
}

// A fake that lacks what containerd 1.6 lacks, and more.
func TestUnimplementedByTheFake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		optional := []string{
			"GetContainerEvents", "RuntimeConfig", "UpdatePodSandboxResources", "CheckpointContainer",
			"ListMetricDescriptors", "ListPodSandboxMetrics",
		}
		n := newNode(t, nodeConfig{fake: fake.Config{Unimplemented: optional}})
		for _, name := range optional {
			c := callNamed(t, name)
			err := c.make(t.Context(), n)
			requireCallFailed(t, err, name, c.objectOf(n))
			require.True(t, cri.IsUnimplemented(err), "%s: %v", name, err)
		}
		n.requireHealthy(t)
	})
}

// What does not exist is NotFound, from whatever call says so.
func TestNotFound(t *testing.T) {
	for _, c := range everyCall() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, nodeConfig{script: dialled + c.name + `: NotFound "no such thing"`})
				err := c.make(t.Context(), n)
				if c.name == "RemoveImage" {
					require.NoError(t, err, "what is absent is as good as removed")
					return
				}
				requireCallFailed(t, err, c.name, c.objectOf(n))
				require.True(t, cri.IsNotFound(fmt.Errorf("pod: %w", err)))
				require.False(t, cri.IsUnimplemented(err))
			})
		})
	}
}

// The fake knows no such container and no such sandbox. Stopping and removing may
// succeed; all else is NotFound.
func TestUnknownObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nodeConfig{fake: fake.Config{Checkpoints: true}})
		n.container, n.sandbox = strings.Repeat("c", 64), strings.Repeat("5", 64)
		for _, c := range everyCall() {
			if c.object != "container" && c.object != "sandbox" {
				continue
			}
			err := c.make(t.Context(), n)
			if err == nil {
				require.Regexp(t, "^(Stop|Remove)", c.name)
				continue
			}
			requireCallFailed(t, err, c.name, c.objectOf(n))
			if cri.IsUnimplemented(err) {
				require.Contains(t, []string{"Exec", "Attach", "PortForward"}, c.name, "without Config.Streams")
				continue
			}
			require.True(t, cri.IsNotFound(err), "%s: %v", c.name, err)
		}
	})
}

// The text of a pull that failed begins with the name of the failure, without
// what gRPC and the client put before it, whatever its code.
func TestPullErrors(t *testing.T) {
	for _, text := range []string{
		"RegistryUnavailable: connection refused", "SignatureValidationFailed: no key", "ErrImageNeverPull", "plain words",
	} {
		for _, code := range []codes.Code{codes.Unknown, codes.Internal, codes.Unavailable, codes.NotFound} {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, nodeConfig{script: fmt.Sprintf("1st PullImage: %v %q", code, text)})
				ref, err := n.images.PullImage(t.Context(), imageSpec(), nil, nil)
				require.Empty(t, ref)
				e := requireCallFailed(t, err, "PullImage", image)
				require.Equal(t, text, e.Message())
				require.Equal(t, code, status.Code(err))
				want := ": PullImage " + image + ": " + text
				if code != codes.Unknown {
					want = ": PullImage " + image + ": " + code.String() + ": " + text
				}
				require.True(t, strings.HasSuffix(err.Error(), want), err.Error())
				_, err = n.images.PullImage(t.Context(), imageSpec(), nil, nil)
				require.NoError(t, err)
			})
		}
	}
}

// A registry's own error reaches the caller as words.
func TestPullErrorOfARegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nodeConfig{fake: fake.Config{
			Pull: func(context.Context, *runtimeapi.ImageSpec, *runtimeapi.AuthConfig) (fake.Image, error) {
				return fake.Image{}, errors.New("RegistryUnavailable: try later")
			},
		}})
		_, err := n.images.PullImage(t.Context(), imageSpec(), nil, nil)
		require.True(t, strings.HasPrefix(requireCallFailed(t, err, "PullImage", image).Message(), "RegistryUnavailable: "))
		require.Equal(t, codes.Unknown, status.Code(err))
	})
}

// command writes to both streams and does what its first argument says.
func command(ctx context.Context, p *fake.Process) int {
	fmt.Fprint(p.Stdout, "out")
	fmt.Fprint(p.Stderr, "err")
	switch p.Args[0] {
	case "sleep":
		<-ctx.Done()
		return 0
	case "fail":
		return 3
	}
	return 0
}

func TestExecSyncResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nodeConfig{fake: fake.Config{Exec: fake.Always(command)}, script: `2nd ExecSync: hang
3rd ExecSync: DeadlineExceeded "exec timed out"
4th ExecSync: exit 137 "killed"`})
		exec := func(timeout time.Duration, words ...string) (string, string, time.Duration, error) {
			begin := time.Now()
			stdout, stderr, err := n.runtime.ExecSync(t.Context(), n.container, words, timeout)
			return string(stdout), string(stderr), time.Since(begin), err
		}
		// The runtime ends the command.
		_, _, took, err := exec(10*time.Second, "sleep")
		require.ErrorIs(t, err, cri.ErrExecTimeout)
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))
		require.Equal(t, 10*time.Second, took)
		require.Zero(t, requireCallFailed(t, err, "ExecSync", n.container).Timeout)
		// The runtime does not end it.
		_, _, took, err = exec(10*time.Second, "sleep")
		require.ErrorIs(t, err, cri.ErrExecTimeout)
		require.Equal(t, cri.DefaultRequestTimeout+10*time.Second, took)
		require.Equal(t, took, requireCallFailed(t, err, "ExecSync", n.container).Timeout)
		// The runtime says that it has.
		_, _, _, err = exec(0, "sleep")
		require.ErrorIs(t, err, cri.ErrExecTimeout)

		var exit *cri.ExitError
		_, _, _, err = exec(0, "fail")
		require.ErrorAs(t, err, &exit)
		require.EqualValues(t, 137, exit.Code)
		require.Equal(t, "killed", string(exit.Stdout))
		stdout, stderr, _, err := exec(time.Minute, "fail")
		require.Equal(t, &cri.ExitError{Code: 3, Stdout: []byte("out"), Stderr: []byte("err")}, err)
		require.NotErrorIs(t, err, cri.ErrExecTimeout)
		require.Equal(t, "out err", stdout+" "+stderr)
		stdout, stderr, _, err = exec(0, "succeed")
		require.NoError(t, err)
		require.Equal(t, "out err", stdout+" "+stderr)
	})
}

// A failure that repeats is logged once a minute for each call and object, one
// that differs or comes back at once.
func TestRepeatedFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		n := newNode(t, nodeConfig{
			script: `1st to 721st ContainerStatus of container app: Unavailable "busy"
723rd ContainerStatus of container app: Unavailable "busy"
724th ContainerStatus of container app: Unavailable "busier"
StopContainer: Unavailable "busy"`,
			client: cri.ClientConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))},
		})
		ask := func() error { _, err := n.runtime.ContainerStatus(t.Context(), n.container, false); return err }
		for range 721 { // an hour
			require.Error(t, ask())
			require.Error(t, n.runtime.StopContainer(t.Context(), n.container, 0))
			time.Sleep(5 * time.Second)
		}
		lines := func(call string) int { return strings.Count(log.String(), "call="+call+" id="+n.container) }
		require.Equal(t, 61, lines("ContainerStatus"))
		require.Equal(t, 61, lines("StopContainer"))
		require.NoError(t, ask())
		require.Error(t, ask())
		require.Error(t, ask())
		require.Equal(t, 63, lines("ContainerStatus"), "after a success, and with another text")
	})
}

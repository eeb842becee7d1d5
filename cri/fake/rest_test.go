package fake_test

import (
	"context"
	"errors"
	"fmt"
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

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{AnyImage: true})
		ctx, cancel := context.WithCancel(t.Context())
		var first, second []string
		collect := func(into *[]string) func(*runtimeapi.ContainerEventResponse) {
			return func(e *runtimeapi.ContainerEventResponse) {
				states := []string{}
				for _, s := range e.ContainersStatuses {
					states = append(states, strings.TrimPrefix(s.State.String(), "CONTAINER_"))
				}
				kind := strings.TrimSuffix(strings.TrimPrefix(e.ContainerEventType.String(), "CONTAINER_"), "_EVENT")
				who := "container"
				if e.ContainerId == e.PodSandboxStatus.Id {
					who = "sandbox"
				}
				*into = append(*into, fmt.Sprintf("%s %s %s %v", who, kind, e.PodSandboxStatus.State, states))
			}
		}
		ended := make(chan error, 2)
		go func() { ended <- rt.GetContainerEvents(ctx, collect(&first)) }()
		go func() { ended <- rt.GetContainerEvents(ctx, collect(&second)) }()
		synctest.Wait()

		sandboxID, id := running(t, rt)
		synctest.Wait()
		require.NoError(t, rt.StopContainer(t.Context(), id, time.Second))
		require.NoError(t, rt.RemoveContainer(t.Context(), id))
		require.NoError(t, rt.RemovePodSandbox(t.Context(), sandboxID))
		synctest.Wait()
		want := []string{
			"sandbox CREATED SANDBOX_READY []",
			"sandbox STARTED SANDBOX_READY []",
			"container CREATED SANDBOX_READY [CREATED]",
			"container STARTED SANDBOX_READY [RUNNING]",
			"container STOPPED SANDBOX_READY [EXITED]",
			"container DELETED SANDBOX_READY []",
			"sandbox STOPPED SANDBOX_NOTREADY []",
			"sandbox DELETED SANDBOX_NOTREADY []",
		}
		require.Equal(t, want, first)
		require.Equal(t, want, second)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.ErrorIs(t, <-ended, context.Canceled)

		go func() { ended <- rt.GetContainerEvents(t.Context(), collect(&first)) }()
		synctest.Wait()
		require.NoError(t, rt.Close())
		require.Equal(t, codes.Unavailable, status.Code(<-ended))
	})
}

func TestOldRuntime(t *testing.T) {
	ctx := t.Context()
	rt := start(t, fake.Config{NoEvents: true, NoRuntimeConfig: true})
	require.True(t, cri.IsUnimplemented(rt.GetContainerEvents(ctx, nil)))
	_, err := rt.RuntimeConfig(ctx)
	require.True(t, cri.IsUnimplemented(err))
	_, err = rt.Exec(ctx, &runtimeapi.ExecRequest{})
	require.True(t, cri.IsUnimplemented(err))
	_, err = rt.Attach(ctx, &runtimeapi.AttachRequest{})
	require.True(t, cri.IsUnimplemented(err))
	_, err = rt.PortForward(ctx, &runtimeapi.PortForwardRequest{})
	require.True(t, cri.IsUnimplemented(err))
	require.True(t, cri.IsUnimplemented(rt.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{})))
	_, err = rt.ListMetricDescriptors(ctx)
	require.True(t, cri.IsUnimplemented(err))
	_, err = rt.ListPodSandboxMetrics(ctx)
	require.True(t, cri.IsUnimplemented(err))
}

func TestLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		rt := start(t, fake.Config{AnyImage: true})
		sandboxes, ids := map[string]string{}, map[string]string{}
		for _, pod := range []string{"a", "b"} {
			sandboxID, err := rt.RunPodSandbox(ctx, podConfig(pod), "")
			require.NoError(t, err)
			sandboxes[pod] = sandboxID
			for _, name := range []string{"x", "y"} {
				id, err := rt.CreateContainer(ctx, sandboxID, containerConfig(pod, name), podConfig(pod))
				require.NoError(t, err)
				ids[pod+name] = id
			}
		}
		require.NoError(t, rt.StartContainer(ctx, ids["ay"]))
		require.NoError(t, rt.StopPodSandbox(ctx, sandboxes["b"]))
		label := func(k, v string) map[string]string { return map[string]string{k: v} }
		uid, name := "io.kubernetes.pod.uid", "io.kubernetes.container.name"
		state := func(s runtimeapi.ContainerState) *runtimeapi.ContainerStateValue {
			return &runtimeapi.ContainerStateValue{State: s}
		}
		for _, c := range []struct {
			filter *runtimeapi.ContainerFilter
			want   string
		}{
			{nil, "ax ay bx by"},
			{&runtimeapi.ContainerFilter{}, "ax ay bx by"},
			{&runtimeapi.ContainerFilter{Id: ids["bx"]}, "bx"},
			{&runtimeapi.ContainerFilter{Id: "nope"}, ""},
			{&runtimeapi.ContainerFilter{PodSandboxId: sandboxes["a"]}, "ax ay"},
			{&runtimeapi.ContainerFilter{PodSandboxId: sandboxes["a"], Id: ids["bx"]}, ""},
			{&runtimeapi.ContainerFilter{PodSandboxId: "nope"}, ""},
			{&runtimeapi.ContainerFilter{LabelSelector: label(uid, "uid-b")}, "bx by"},
			{&runtimeapi.ContainerFilter{LabelSelector: label(uid, "nope")}, ""},
			{&runtimeapi.ContainerFilter{LabelSelector: label(name, "y")}, "ay by"},
			{&runtimeapi.ContainerFilter{LabelSelector: label("nope", "")}, ""},
			{&runtimeapi.ContainerFilter{LabelSelector: label(name, "y"), PodSandboxId: sandboxes["b"]}, "by"},
			{&runtimeapi.ContainerFilter{State: state(runtimeapi.ContainerState_CONTAINER_RUNNING)}, "ay"},
			{&runtimeapi.ContainerFilter{State: state(runtimeapi.ContainerState_CONTAINER_CREATED)}, "ax bx by"},
		} {
			list, err := rt.ListContainers(ctx, c.filter)
			require.NoError(t, err)
			var got []string
			for _, entry := range list {
				got = append(got, strings.TrimPrefix(entry.Labels[uid], "uid-")+entry.Metadata.Name)
			}
			require.Equal(t, c.want, strings.Join(got, " "), "%v", c.filter)
		}
		list, err := rt.ListContainers(ctx, nil)
		require.NoError(t, err)
		list[0].Labels[uid] = "changed"
		again, err := rt.ListContainers(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, "uid-a", again[0].Labels[uid])
		require.Contains(t, again[0].ImageRef, "sha256:")
		require.Equal(t, sandboxes["a"], again[0].PodSandboxId)

		ready := &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}
		for _, c := range []struct {
			filter *runtimeapi.PodSandboxFilter
			want   string
		}{
			{nil, "a b"},
			{&runtimeapi.PodSandboxFilter{Id: sandboxes["b"]}, "b"},
			{&runtimeapi.PodSandboxFilter{State: ready}, "a"},
			{&runtimeapi.PodSandboxFilter{LabelSelector: label(uid, "uid-b")}, "b"},
			{&runtimeapi.PodSandboxFilter{LabelSelector: label("app", "a")}, "a"},
			{&runtimeapi.PodSandboxFilter{LabelSelector: label(uid, "nope")}, ""},
		} {
			list, err := rt.ListPodSandbox(ctx, c.filter)
			require.NoError(t, err)
			var got []string
			for _, entry := range list {
				got = append(got, entry.Metadata.Name)
			}
			require.Equal(t, c.want, strings.Join(got, " "), "%v", c.filter)
		}
	})
}

func TestLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		logs, step := &memoryLogs{}, make(chan struct{})
		rt := start(t, fake.Config{AnyImage: true, OpenLog: logs.open, Programs: fake.Always(
			func(_ context.Context, p *fake.Process) int {
				fmt.Fprint(p.Stdout, "one\ntwo")
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

func TestExecSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		rt := start(t, fake.Config{AnyImage: true, Exec: fake.ByCommand(map[string]fake.Program{
			"say": func(_ context.Context, p *fake.Process) int {
				fmt.Fprint(p.Stdout, p.Args[1:], p.Exec)
				fmt.Fprint(p.Stderr, p.Container.Name)
				return 0
			},
			"fail":  fake.Exit(2),
			"sleep": fake.SleepUntilStopped,
		}, nil)})
		_, id := running(t, rt)
		stdout, stderr, err := rt.ExecSync(ctx, id, []string{"say", "a"}, 0)
		require.NoError(t, err)
		require.Equal(t, "[a] true", string(stdout))
		require.Equal(t, "c", string(stderr))
		var failed *cri.ExitError
		_, _, err = rt.ExecSync(ctx, id, []string{"fail"}, time.Second)
		require.ErrorAs(t, err, &failed)
		require.EqualValues(t, 2, failed.Code)
		_, _, err = rt.ExecSync(ctx, id, []string{"missing"}, 0)
		require.ErrorIs(t, err, fake.ErrNotFound)
		_, _, err = rt.ExecSync(ctx, id, nil, 0)
		require.Equal(t, codes.InvalidArgument, status.Code(err))
		_, _, err = rt.ExecSync(ctx, "nope", []string{"say"}, 0)
		require.True(t, cri.IsNotFound(err))

		began := time.Now()
		_, _, err = rt.ExecSync(ctx, id, []string{"sleep"}, 5*time.Second)
		require.ErrorIs(t, err, cri.ErrExecTimeout)
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))
		require.Equal(t, 5*time.Second, time.Since(began))
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, _, err = rt.ExecSync(short, id, []string{"sleep"}, time.Hour)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, cri.ErrExecTimeout)

		time.AfterFunc(3*time.Second, func() { _ = rt.StopContainer(ctx, id, 0) })
		_, _, err = rt.ExecSync(ctx, id, []string{"sleep"}, 0)
		require.ErrorAs(t, err, &failed)
		require.EqualValues(t, 137, failed.Code, "an exec ends with its container")
		_, _, err = rt.ExecSync(ctx, id, []string{"say"}, 0)
		require.Equal(t, codes.FailedPrecondition, status.Code(err))
	})
}

func TestIntercept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		boom := errors.New("boom")
		rt := start(t, fake.Config{AnyImage: true, Intercept: func(ctx context.Context, call string, request any) error {
			calls = append(calls, call)
			switch r := request.(type) {
			case *runtimeapi.StopContainerRequest:
				require.EqualValues(t, 2, r.Timeout)
				return boom
			case *runtimeapi.UpdatePodSandboxResourcesRequest:
				return status.Error(codes.Unimplemented, "not here")
			case *runtimeapi.ListContainersRequest:
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}})
		_, id := running(t, rt)
		require.ErrorIs(t, rt.StopContainer(t.Context(), id, 1500*time.Millisecond), boom)
		require.True(t, cri.IsUnimplemented(rt.UpdatePodSandboxResources(t.Context(), &runtimeapi.UpdatePodSandboxResourcesRequest{})))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := rt.ListContainers(ctx, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))
		require.Equal(t, time.Minute, time.Since(began))
		_, err = rt.Version(ctx)
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))
		require.Equal(t, []string{"RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "UpdatePodSandboxResources", "ListContainers"}, calls)
	})
}

func TestImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		spec := func(name string) *runtimeapi.ImageSpec { return &runtimeapi.ImageSpec{Image: name} }
		uid := int64(1000)
		registry, err := fake.Registry(
			fake.RemoteImage{Image: fake.Image{Name: "slow:1", Size: 5}, Latency: time.Minute},
			fake.RemoteImage{Image: fake.Image{Name: "broken"}, Err: errors.New("RegistryUnavailable: down")},
			fake.RemoteImage{Image: fake.Image{Name: "private"}, Username: "me", Password: "pw"},
		)
		require.NoError(t, err)
		rt := start(t, fake.Config{Images: []fake.Image{{Name: "here", UID: &uid, Pinned: true}}, Pull: registry})

		for _, name := range []string{"here", "here:latest"} {
			response, err := rt.ImageStatus(ctx, spec(name), false)
			require.NoError(t, err)
			require.EqualValues(t, 1000, response.Image.Uid.Value)
			require.True(t, response.Image.Pinned)
			require.Equal(t, []string{"here:latest"}, response.Image.RepoTags)
			byID, err := rt.ImageStatus(ctx, spec(response.Image.Id), false)
			require.NoError(t, err)
			require.Equal(t, response.Image.Id, byID.Image.Id)
			byDigest, err := rt.ImageStatus(ctx, spec(response.Image.RepoDigests[0]), true)
			require.NoError(t, err)
			require.Equal(t, response.Image.Id, byDigest.Image.Id)
		}
		absent, err := rt.ImageStatus(ctx, spec("slow:1"), false)
		require.NoError(t, err)
		require.Nil(t, absent.Image)

		began := time.Now()
		ref, err := rt.PullImage(ctx, spec("slow:1"), nil, nil)
		require.NoError(t, err)
		require.Equal(t, time.Minute, time.Since(began))
		present, err := rt.ImageStatus(ctx, spec("slow:1"), false)
		require.NoError(t, err)
		require.Equal(t, ref, present.Image.Id)
		require.EqualValues(t, 5, present.Image.Size)
		list, err := rt.ListImages(ctx, nil)
		require.NoError(t, err)
		require.Len(t, list, 2)
		usage, err := rt.ImageFsInfo(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 1<<20+5, usage.ImageFilesystems[0].UsedBytes.Value)

		_, err = rt.PullImage(ctx, spec("broken"), nil, nil)
		require.ErrorContains(t, err, "RegistryUnavailable")
		_, err = rt.PullImage(ctx, spec("unknown"), nil, nil)
		require.True(t, cri.IsNotFound(err))
		_, err = rt.PullImage(ctx, spec(""), nil, nil)
		require.Equal(t, codes.InvalidArgument, status.Code(err))
		_, err = rt.PullImage(ctx, spec("private"), nil, nil)
		require.ErrorContains(t, err, "access denied")
		_, err = rt.PullImage(ctx, spec("private"), &runtimeapi.AuthConfig{Username: "me", Password: "pw"}, nil)
		require.NoError(t, err)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = rt.PullImage(short, spec("slow:1"), nil, nil)
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))

		require.NoError(t, rt.RemoveImage(ctx, spec("slow:1")))
		require.NoError(t, rt.RemoveImage(ctx, spec("slow:1")))
		absent, err = rt.ImageStatus(ctx, spec(ref), false)
		require.NoError(t, err)
		require.Nil(t, absent.Image)
	})
}

func TestAnyImage(t *testing.T) {
	ctx := t.Context()
	rt := start(t, fake.Config{AnyImage: true})
	response, err := rt.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: "whatever:1"}, false)
	require.NoError(t, err)
	require.NotZero(t, response.Image.Size)
	list, err := rt.ListImages(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, list)
	running(t, rt)
	list, err = rt.ListImages(ctx, nil)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, []string{"busybox:latest"}, list[0].RepoTags)
}

func TestConfigIsChecked(t *testing.T) {
	for want, cfg := range map[string]fake.Config{
		"KillTimeout":  {KillTimeout: -1},
		"CgroupDriver": {CgroupDriver: "none"},
		"FixedIPs":     {FixedIPs: []string{"x"}},
		"Images[0]":    {Images: []fake.Image{{}}},
	} {
		_, err := fake.New(cfg)
		require.ErrorContains(t, err, want)
	}
}

func TestInfoAndStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		rt := start(t, fake.Config{AnyImage: true, Name: "pretend", CgroupDriver: "systemd"})
		version, err := rt.Version(ctx)
		require.NoError(t, err)
		require.Equal(t, "0.1.0 pretend v1.0.0 v1", strings.Join([]string{version.Version, version.RuntimeName, version.RuntimeVersion, version.RuntimeApiVersion}, " "))
		config, err := rt.RuntimeConfig(ctx)
		require.NoError(t, err)
		require.Equal(t, runtimeapi.CgroupDriver_SYSTEMD, config.Linux.CgroupDriver)
		require.NoError(t, rt.SetCondition(runtimeapi.NetworkReady, false, "NoCNI", "no network"))
		require.Error(t, rt.SetCondition("Other", true, "", ""))
		s, err := rt.Status(ctx, true)
		require.NoError(t, err)
		require.True(t, s.Status.Conditions[0].Status)
		require.False(t, s.Status.Conditions[1].Status)
		require.Equal(t, "NoCNI", s.Status.Conditions[1].Reason)

		require.NoError(t, rt.UpdateRuntimeConfig(ctx, &runtimeapi.RuntimeConfig{NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: "10.1.2.0/24,fd00::/64"}}))
		sandboxID, id := running(t, rt)
		sandbox, err := rt.PodSandboxStatus(ctx, sandboxID, false)
		require.NoError(t, err)
		require.Equal(t, "10.1.2.2", sandbox.Status.Network.Ip)
		require.Equal(t, "fd00::2", sandbox.Status.Network.AdditionalIps[0].Ip)

		update := &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 1 << 30}}
		require.NoError(t, rt.UpdateContainerResources(ctx, update))
		update.Linux = &runtimeapi.LinuxContainerResources{CpuShares: 512, Unified: map[string]string{"a": "b"}}
		require.NoError(t, rt.UpdateContainerResources(ctx, update))
		resources := statusOf(t, rt, id).Resources.Linux
		require.EqualValues(t, 1<<30, resources.MemoryLimitInBytes)
		require.EqualValues(t, 512, resources.CpuShares)

		time.Sleep(10 * time.Second)
		stats, err := rt.ContainerStats(ctx, id)
		require.NoError(t, err)
		require.EqualValues(t, 10*10_000_000, stats.Cpu.UsageCoreNanoSeconds.Value)
		require.EqualValues(t, 1<<30-8<<20, stats.Memory.AvailableBytes.Value)
		pod, err := rt.PodSandboxStats(ctx, sandboxID)
		require.NoError(t, err)
		require.Len(t, pod.Linux.Containers, 1)
		require.EqualValues(t, 1, pod.Linux.Process.ProcessCount.Value)
		all, err := rt.ListContainerStats(ctx, nil)
		require.NoError(t, err)
		require.Len(t, all, 1)
		pods, err := rt.ListPodSandboxStats(ctx, nil)
		require.NoError(t, err)
		require.Len(t, pods, 1)
		require.NoError(t, rt.StopPodSandbox(ctx, sandboxID))
		all, err = rt.ListContainerStats(ctx, &runtimeapi.ContainerStatsFilter{Id: id})
		require.NoError(t, err)
		require.Empty(t, all)
		_, err = rt.PodSandboxStats(ctx, sandboxID)
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.Equal(t, codes.FailedPrecondition, status.Code(rt.UpdateContainerResources(ctx, update)))
	})
}

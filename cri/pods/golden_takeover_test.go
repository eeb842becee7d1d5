package pods_test

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/testkit/golden"
)

// C50: a pod of the upstream kubelet is taken over unchanged: no object is stopped, created or
// started.
func TestGoldenTakeover(t *testing.T) {
	_, names := goldenSet(t, "")
	taken := 0
	for _, name := range names {
		record, err := golden.ReadRecord(goldenDir, name)
		require.NoError(t, err)
		if len(record.Sandboxes) != 1 {
			continue
		}
		taken++
		t.Run(name, func(t *testing.T) { takeOver(t, record) })
	}
	require.Greater(t, taken, 30)
}

func takeOver(t *testing.T, record golden.Record) {
	dir := t.TempDir()
	var pod v1.Pod
	require.NoError(t, json.Unmarshal(record.Pod, &pod))
	synctest.Test(t, func(t *testing.T) {
		programs := map[string]fake.Program{}
		for i := range pod.Spec.InitContainers {
			if c := &pod.Spec.InitContainers[i]; !podfacts.IsSidecar(c) {
				programs[c.Name] = fake.Exit(0)
			}
		}
		changes := 0
		rt, err := fake.New(fake.Config{
			AnyImage: true, Programs: fake.ByContainer(programs, fake.SleepUntilStopped),
			Intercept: func(_ context.Context, call string, _ any) error {
				switch call {
				case "RunPodSandbox", "StopPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "UpdateContainerResources":
					changes++
				}
				return nil
			},
		})
		require.NoError(t, err)
		defer rt.Close()
		rebuild(t, rt, record, filepath.Join(dir, "logs"))
		manager, err := pods.New(pods.Config{
			Runtime: rt, Images: noImages{t}, RuntimeName: "fake", Owner: cri.Owner{Unlabelled: true}, LogRoot: filepath.Join(dir, "logs"),
			PodDir: func(uid types.UID) string { return filepath.Join(dir, string(uid)) },
		})
		require.NoError(t, err)
		status, err := observer(t, rt).PodStatus(t.Context(), pod.UID)
		require.NoError(t, err)
		require.Len(t, status.Containers, len(record.Containers))
		changes = 0
		result := manager.SyncPod(t.Context(), pods.SyncRequest{Pod: &pod, Status: status, Probes: allStarted(status)})
		require.NoError(t, result.Err())
		require.Empty(t, result.Entries)
		require.Zero(t, changes)
		require.Empty(t, result.Explanation())
	})
}

// rebuild runs the objects of a record on a runtime.
func rebuild(t *testing.T, rt *fake.Runtime, record golden.Record, logs string) {
	sandbox := &runtimeapi.RunPodSandboxRequest{}
	decode(t, record.Sandboxes[0], sandbox)
	sandbox.Config.LogDirectory = logs
	id, err := rt.RunPodSandbox(t.Context(), sandbox.Config, sandbox.RuntimeHandler)
	require.NoError(t, err)
	before := map[string]string{}
	for _, c := range record.Containers {
		config := c.Config.(map[string]any)
		delete(config, "envs") // recorded as text
		delete(config, "mounts")
		container := &runtimeapi.ContainerConfig{}
		decode(t, config, container)
		if old := before[container.Metadata.Name]; old != "" { // it exited and was restarted
			require.NoError(t, rt.StopContainer(t.Context(), old, 0))
		}
		created, err := rt.CreateContainer(t.Context(), id, container, sandbox.Config)
		require.NoError(t, err)
		require.NoError(t, rt.StartContainer(t.Context(), created))
		before[container.Metadata.Name] = created
		time.Sleep(time.Second)
	}
}

func decode(t *testing.T, value any, into proto.Message) {
	text, err := json.Marshal(value)
	require.NoError(t, err)
	text = bytes.ReplaceAll(text, []byte(`"HOST_ID"`), []byte("65536")) // it is random
	require.NoError(t, protojson.Unmarshal(text, into))
}

// noImages fails the test if an image is requested.
type noImages struct{ t *testing.T }

func (n noImages) Ensure(context.Context, images.Request) (images.Image, error) {
	n.t.Error("an image was asked for")
	return images.Image{}, nil
}

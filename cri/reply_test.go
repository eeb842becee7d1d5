package cri

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// broken returns a copy of a good reply with one thing wrong.
func broken[M proto.Message](good M, harm func(M)) M {
	reply := proto.Clone(good).(M)
	harm(reply)
	return reply
}

var badReplies = []struct {
	call, field string
	reply       proto.Message
}{
	{"Version", "version", broken(goodVersion(), func(r *runtimeapi.VersionResponse) { r.Version = "" })},
	{"Version", "version", broken(goodVersion(), func(r *runtimeapi.VersionResponse) { r.Version = "0.2.0" })},
	{"Version", "runtime_name", broken(goodVersion(), func(r *runtimeapi.VersionResponse) { r.RuntimeName = "" })},
	{"Version", "runtime_version", broken(goodVersion(), func(r *runtimeapi.VersionResponse) { r.RuntimeVersion = "" })},
	{"Version", "runtime_api_version", broken(goodVersion(), func(r *runtimeapi.VersionResponse) { r.RuntimeApiVersion = "" })},
	{"Status", "status.conditions", &runtimeapi.StatusResponse{}},
	{"Status", "status.conditions", broken(goodStatus(), func(r *runtimeapi.StatusResponse) { r.Status.Conditions = r.Status.Conditions[:1] })},
	{"Status", "status.conditions", broken(goodStatus(), func(r *runtimeapi.StatusResponse) { r.Status.Conditions[0].Type = "Other" })},
	{"RunPodSandbox", "pod_sandbox_id", &runtimeapi.RunPodSandboxResponse{}},
	{"CreateContainer", "container_id", &runtimeapi.CreateContainerResponse{}},
	{"PodSandboxStatus", "status", &runtimeapi.PodSandboxStatusResponse{}},
	{"PodSandboxStatus", "status.id", broken(goodSandbox(), func(r *runtimeapi.PodSandboxStatusResponse) { r.Status.Id = "" })},
	{"PodSandboxStatus", "status.metadata", broken(goodSandbox(), func(r *runtimeapi.PodSandboxStatusResponse) { r.Status.Metadata = nil })},
	{"PodSandboxStatus", "status.metadata.name", broken(goodSandbox(), func(r *runtimeapi.PodSandboxStatusResponse) { r.Status.Metadata.Name = "" })},
	{"PodSandboxStatus", "status.metadata.namespace", broken(goodSandbox(), func(r *runtimeapi.PodSandboxStatusResponse) { r.Status.Metadata.Namespace = "" })},
	{"PodSandboxStatus", "status.metadata.uid", broken(goodSandbox(), func(r *runtimeapi.PodSandboxStatusResponse) { r.Status.Metadata.Uid = "" })},
	{"PodSandboxStatus", "status.created_at", broken(goodSandbox(), func(r *runtimeapi.PodSandboxStatusResponse) { r.Status.CreatedAt = 0 })},
	{"ContainerStatus", "status", &runtimeapi.ContainerStatusResponse{}},
	{"ContainerStatus", "status.id", broken(goodContainer(), func(r *runtimeapi.ContainerStatusResponse) { r.Status.Id = "" })},
	{"ContainerStatus", "status.metadata", broken(goodContainer(), func(r *runtimeapi.ContainerStatusResponse) { r.Status.Metadata = nil })},
	{"ContainerStatus", "status.metadata.name", broken(goodContainer(), func(r *runtimeapi.ContainerStatusResponse) { r.Status.Metadata.Name = "" })},
	{"ContainerStatus", "status.created_at", broken(goodContainer(), func(r *runtimeapi.ContainerStatusResponse) { r.Status.CreatedAt = 0 })},
	{"ContainerStatus", "status.image.image", broken(goodContainer(), func(r *runtimeapi.ContainerStatusResponse) { r.Status.Image = nil })},
	{"ContainerStatus", "status.image_ref", broken(goodContainer(), func(r *runtimeapi.ContainerStatusResponse) { r.Status.ImageRef = "" })},
	{"Exec", "url", &runtimeapi.ExecResponse{}},
	{"Attach", "url", &runtimeapi.AttachResponse{}},
	{"PortForward", "url", &runtimeapi.PortForwardResponse{}},
	{"ContainerStats", "stats", &runtimeapi.ContainerStatsResponse{}},
	{"PodSandboxStats", "stats", &runtimeapi.PodSandboxStatsResponse{}},
	{"ImageStatus", "image.id", &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Size: 1}}},
	{"ImageStatus", "image.size", &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: "i"}}},
	{"PullImage", "image_ref", &runtimeapi.PullImageResponse{}},
}

func TestBadReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, runtime, images := bothClients(t)
		for _, bad := range badReplies {
			for _, c := range everyCall {
				if c.name != bad.call {
					continue
				}
				s.reply(c.name, bad.reply)
				err := c.call(t.Context(), runtime, images)
				requireCallError(t, err, c.name)
				var reply *ReplyError
				require.ErrorAs(t, err, &reply, "%s without %s", c.name, bad.field)
				require.Equal(t, bad.call, reply.Call)
				require.Equal(t, bad.field, reply.Field)
				require.NotEmpty(t, reply.Problem)
				require.ErrorContains(t, err, bad.field)
				require.Equal(t, codes.Unknown, status.Code(err))
				s.reply(c.name, c.reply)
			}
		}
	})
}

func TestGoodRepliesPass(t *testing.T) {
	for _, c := range everyCall {
		require.NoError(t, checkReply(c.name, c.reply), c.name)
	}
	require.NoError(t, checkReply("ImageStatus", &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: "i", Size: 1}}))
}

// A runtime of the wrong version is refused when the client connects.
func TestDialRefusesAnUnsupportedVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.reply("Version", broken(goodVersion(), func(r *runtimeapi.VersionResponse) { r.Version = "0.2.0" }))
		client, err := DialRuntime(t.Context(), s.inMemory(t))
		require.Nil(t, client)
		require.EqualError(t, err, `runtime unix:///run/scripted.sock: Version: invalid reply: version is "0.2.0", want "0.1.0"`)
	})
}

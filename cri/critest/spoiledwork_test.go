package critest

import (
	"context"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
)

func (s *spoiled) ReopenContainerLog(ctx context.Context, id string) error {
	if s.reopen == nil {
		return s.RuntimeService.ReopenContainerLog(ctx, id)
	}
	_, err := s.RuntimeService.ContainerStatus(ctx, id, false)
	return s.reopen(err)
}

func (s *spoiled) ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) ([]byte, []byte, error) {
	run := func(ctx context.Context, timeout time.Duration) ([]byte, []byte, error) {
		return s.RuntimeService.ExecSync(ctx, id, command, timeout)
	}
	if s.execSync == nil {
		return run(ctx, timeout)
	}
	return s.execSync(ctx, command, timeout, run)
}

func (s *spoiled) Exec(ctx context.Context, r *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	if s.exec != nil {
		r = copied(r)
		if url := s.exec(r); url != "" {
			return &runtimeapi.ExecResponse{Url: url}, nil
		}
	}
	return s.RuntimeService.Exec(ctx, r)
}

func (s *spoiled) Attach(ctx context.Context, r *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	if s.attach != nil {
		r = copied(r)
		if url := s.attach(r); url != "" {
			return &runtimeapi.AttachResponse{Url: url}, nil
		}
	}
	return s.RuntimeService.Attach(ctx, r)
}

func (s *spoiled) PortForward(ctx context.Context, r *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	if s.forward != nil {
		if url := s.forward(copied(r)); url != "" {
			return &runtimeapi.PortForwardResponse{Url: url}, nil
		}
	}
	return s.RuntimeService.PortForward(ctx, r)
}

func (s *spoiled) ContainerStats(ctx context.Context, id string) (*runtimeapi.ContainerStats, error) {
	stats, err := s.RuntimeService.ContainerStats(ctx, id)
	if s.stats != nil {
		return s.stats(stats, err)
	}
	return stats, err
}

func (s *spoiled) ListContainerStats(ctx context.Context, f *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	if s.statsFilter != nil {
		f = s.statsFilter(copied(f))
	}
	list, err := s.RuntimeService.ListContainerStats(ctx, f)
	for i := range list {
		if s.stats != nil && err == nil {
			list[i], err = s.stats(list[i], nil)
		}
	}
	return list, err
}

func (s *spoiled) PodSandboxStats(ctx context.Context, id string) (*runtimeapi.PodSandboxStats, error) {
	stats, err := s.RuntimeService.PodSandboxStats(ctx, id)
	if s.sandboxStats != nil {
		return s.sandboxStats(stats, err)
	}
	return stats, err
}

func (s *spoiled) GetContainerEvents(ctx context.Context, handle func(*runtimeapi.ContainerEventResponse)) error {
	run := func(ctx context.Context) error {
		return s.RuntimeService.GetContainerEvents(ctx, func(event *runtimeapi.ContainerEventResponse) {
			if s.event == nil || s.event(event) {
				handle(event)
			}
		})
	}
	if s.events == nil {
		return run(ctx)
	}
	return s.events(ctx, run)
}

type spoiledImages struct {
	cri.ImageService
	pull   func(ctx context.Context, name string, run func(context.Context) (string, error)) (string, error)
	remove func(ctx context.Context, name string) error
	status func(r *runtimeapi.ImageStatusResponse) error
	list   func(l []*runtimeapi.Image) []*runtimeapi.Image
	fsInfo func(r *runtimeapi.ImageFsInfoResponse)
}

func (s *spoiledImages) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, pod *runtimeapi.PodSandboxConfig) (string, error) {
	run := func(ctx context.Context) (string, error) { return s.ImageService.PullImage(ctx, image, auth, pod) }
	if s.pull == nil {
		return run(ctx)
	}
	return s.pull(ctx, image.GetImage(), run)
}

func (s *spoiledImages) RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error {
	if s.remove == nil {
		return s.ImageService.RemoveImage(ctx, image)
	}
	return s.remove(ctx, image.GetImage())
}

func (s *spoiledImages) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error) {
	response, err := s.ImageService.ImageStatus(ctx, image, verbose)
	if err == nil && s.status != nil {
		return response, s.status(response)
	}
	return response, err
}

func (s *spoiledImages) ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	list, err := s.ImageService.ListImages(ctx, filter)
	if err == nil && s.list != nil {
		list = s.list(list)
	}
	return list, err
}

func (s *spoiledImages) ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	response, err := s.ImageService.ImageFsInfo(ctx)
	if err == nil && s.fsInfo != nil {
		s.fsInfo(response)
	}
	return response, err
}

// editedLog is a log file that edits its lines.
type editedLog struct {
	*os.File
	edit func(p []byte) []byte
}

func (l editedLog) Write(p []byte) (int, error) {
	_, err := l.File.Write(l.edit(p))
	return len(p), err
}

// onLog makes the fake open its logs with flags and edit their lines.
func onLog(flags int, edit func(p []byte) []byte) func(*fake.Config) {
	return func(cfg *fake.Config) {
		cfg.OpenLog = func(path string) (io.WriteCloser, error) {
			file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flags, 0o600)
			return editedLog{file, edit}, err
		}
	}
}

// defect is a defect of a runtime, and the case that detects it.
type defect struct {
	name     string
	caughtBy string
	config   func(cfg *fake.Config)
	runtime  func(s *spoiled, rt *fake.Runtime)
	images   func(s *spoiledImages, rt *fake.Runtime)
	subject  func(s *Subject)
}

// record runs a case on a fake with a defect, in a bubble.
func record(t *testing.T, c testCase, d defect) *recorder {
	var r *recorder
	synctest.Test(t, func(t *testing.T) {
		sessions := &directSessions{requests: map[string]any{}}
		pull, err := fake.Registry(
			fake.RemoteImage{Image: fake.Image{Name: "critest.test/busybox:1"}},
			fake.RemoteImage{Image: fake.Image{Name: otherName, ID: otherID, Digest: otherDigest}},
			fake.RemoteImage{Image: fake.Image{Name: "critest.test/other@" + otherDigest, ID: otherID, Digest: otherDigest}},
		)
		require.NoError(t, err)
		cfg := fake.Config{Programs: Programs, Exec: Programs, Streams: sessions, Ports: Ports, Pull: pull}
		if d.config != nil {
			d.config(&cfg)
		}
		rt, err := fake.New(cfg)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		r = &recorder{TB: t, ctx: ctx}
		work, images := newSpoiled(rt), &spoiledImages{ImageService: rt}
		sessions.runtime, sessions.work = rt, work
		if d.runtime != nil {
			d.runtime(work, rt)
		}
		if d.images != nil {
			d.images(images, rt)
		}
		subject := Subject{
			Runtime: work, Images: images, Image: "critest.test/busybox:1", OtherImage: otherName, Hardened: true,
			Sessions: sessions,
		}
		if d.subject != nil {
			d.subject(&subject)
		}
		inOwnGoroutine(func() { c.run(newEnv(r, subject, &report{})) })
		for f := r.last(); f != nil; f = r.last() {
			inOwnGoroutine(f)
		}
		cancel()
		require.NoError(t, rt.Close())
		time.Sleep(time.Hour) // virtual time; all effects of the defect end
	})
	return r
}

// TestDefects proves that the suite can fail: the case whose rule a defect breaks fails with it and
// passes without it.
func TestDefects(t *testing.T) {
	for _, d := range defects() {
		t.Run(d.name, func(t *testing.T) {
			c := caseNamed(t, d.caughtBy)
			sound := record(t, c, defect{})
			require.False(t, sound.failed || sound.skipped, "without the defect: %s", sound.log.String())
			broken := record(t, c, d)
			require.True(t, broken.failed, "the case passes in spite of the defect")
			require.NotEmpty(t, broken.log.String(), "a failure has a message")
		})
	}
}

// TestDefectsAreComplete requires a defect for each case of these groups.
func TestDefectsAreComplete(t *testing.T) {
	caught := map[string]bool{}
	for _, d := range defects() {
		caught[d.caughtBy] = true
	}
	for _, g := range groups() {
		switch g.name {
		case "Stop", "Logs", "ExecSync", "Streaming", "Events", "Images", "Stats":
			for _, c := range g.cases {
				require.True(t, caught[g.name+"/"+c.name], "no defect shows that %s/%s can fail", g.name, c.name)
			}
		}
	}
}

package volumetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBoom = errors.New("boom")

func inline(_ *v1.Pod, name string) *volume.Spec {
	return &volume.Spec{Name: name, Inline: &v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}
}

func subject(t testing.TB, wrap func(*Plugin) volume.Plugin) Subject {
	var failing atomic.Bool
	return Subject{
		Layout: volume.Layout{Root: t.TempDir()},
		Open: func() (volume.Plugin, error) {
			return wrap(&Plugin{Content: func(_ context.Context, m volume.Mount) (string, error) {
				if failing.Load() {
					return "", errBoom
				}
				return string(m.Pod.UID), nil
			}}), nil
		},
		Spec: inline,
		Fail: func() (mend func()) { failing.Store(true); return func() { failing.Store(false) } },
	}
}

func persistent(block bool) func(*v1.Pod, string) *volume.Spec {
	return func(pod *v1.Pod, name string) *volume.Spec {
		pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name + "-of-" + string(pod.UID)}}
		if block {
			mode := v1.PersistentVolumeBlock
			pv.Spec.VolumeMode = &mode
		}
		return &volume.Spec{Name: pv.Name, Persistent: pv}
	}
}

func sharedSubject(t testing.TB, wrap func(*Shared) volume.Plugin) Subject {
	s := subject(t, func(p *Plugin) volume.Plugin { return p })
	open := s.Open
	s.Open = func() (volume.Plugin, error) {
		p, err := open()
		return wrap(&Shared{Plugin: p.(*Plugin), Root: filepath.Join(s.Layout.Root, "staged")}), err
	}
	s.Spec = persistent(false)
	return s
}

func TestPlugin(t *testing.T) {
	Run(t, func(t testing.TB) Subject { return subject(t, func(p *Plugin) volume.Plugin { return p }) })
}

func TestShared(t *testing.T) {
	Run(t, func(t testing.TB) Subject { return sharedSubject(t, func(s *Shared) volume.Plugin { return s }) })
}

// A plugin on folders of the host has no defect.
func TestOnHost(t *testing.T) {
	for _, rule := range []string{keepsData, keepsOthersData} {
		s := subject(t, func(p *Plugin) volume.Plugin {
			b := &broken{Plugin: p, supports: p.Supports}
			b.onHost()
			return b
		})
		require.NoError(t, play(t.Context(), find(t, rule), s))
	}
}

func TestBlock(t *testing.T) {
	Run(t, func(t testing.TB) Subject {
		s := subject(t, func(p *Plugin) volume.Plugin { return p })
		s.Spec = persistent(true)
		return s
	})
}

// broken is a Plugin with replaceable methods.
type broken struct {
	*Plugin
	supports func(*volume.Spec) bool
	mount    func(context.Context, volume.Mount) (volume.Mounted, error)
	unmount  func(context.Context, volume.Unmount) error
}

func (b *broken) Supports(s *volume.Spec) bool { return b.supports(s) }

func (b *broken) Mount(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
	return b.mount(ctx, m)
}

func (b *broken) Unmount(ctx context.Context, u volume.Unmount) error { return b.unmount(ctx, u) }

// before makes Mount call f first.
func (b *broken) before(f func(volume.Mount) error) {
	b.mount = func(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
		if err := f(m); err != nil {
			return volume.Mounted{}, err
		}
		return b.Plugin.Mount(ctx, m)
	}
}

// after makes Mount call f last.
func (b *broken) after(f func(m volume.Mount, failed bool)) {
	b.mount = func(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
		out, err := b.Plugin.Mount(ctx, m)
		f(m, err != nil)
		return out, err
	}
}

// onHost makes Mount return a folder of the host, as of a hostPath.
func (b *broken) onHost() {
	b.mount = func(_ context.Context, m volume.Mount) (volume.Mounted, error) {
		return volume.Mounted{Path: hostFolder(m.Dir)}, os.MkdirAll(hostFolder(m.Dir), 0o750)
	}
	b.unmount = func(context.Context, volume.Unmount) error { return nil }
}

func hostFolder(dir string) string { return dir + "-on-the-host" }

func wipe(dir, pattern string) {
	all, _ := filepath.Glob(filepath.Join(dir, pattern))
	for _, path := range all {
		_ = os.RemoveAll(path)
	}
}

const (
	keepsData       = "a repeated Mount keeps the data of containers"
	keepsOthersData = "Unmount keeps data outside of the volume's folder"
)

// Each broken plugin fails the rule that it breaks.
func TestBrokenPlugins(t *testing.T) {
	for _, test := range []struct {
		name, rule string
		breaks     func(*broken)
	}{
		{"Supports changes the spec", "methods without I/O are pure", func(b *broken) {
			b.supports = func(s *volume.Spec) bool { s.Name += "x"; return true }
		}},
		{"results of Supports differ", "methods without I/O are pure", func(b *broken) {
			n := 0
			b.supports = func(*volume.Spec) bool { n++; return n < 2 }
		}},
		{"the name is no folder name", "methods without I/O are pure", func(b *broken) { b.PluginName = ".." }},
		{"the name has a NUL byte", "methods without I/O are pure", func(b *broken) { b.PluginName = "a\x00" }},
		{"the name's folder is ambiguous", "methods without I/O are pure", func(b *broken) { b.PluginName = "a~b" }},
		{"Mount returns a missing path", "Mount creates the returned path, Unmount leaves no files", func(b *broken) {
			b.mount = func(_ context.Context, m volume.Mount) (volume.Mounted, error) {
				return volume.Mounted{Path: m.Dir}, nil
			}
		}},
		{"Mount changes the pod", "Mount creates the returned path, Unmount leaves no files", func(b *broken) {
			b.before(func(m volume.Mount) error { m.Pod.Labels = map[string]string{"a": "b"}; return nil })
		}},
		{"Unmount leaves its state", "Mount creates the returned path, Unmount leaves no files", func(b *broken) {
			b.after(func(m volume.Mount, _ bool) { _ = os.MkdirAll(m.StateDir, 0o750) })
		}},
		{"a repeated Mount fails", "Mount is idempotent", func(b *broken) {
			b.before(func(m volume.Mount) error { return os.Mkdir(m.Dir, 0o750) })
		}},
		{"a repeated Mount replaces the folder", "Mount is idempotent", func(b *broken) {
			b.mount = func(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
				_ = os.Rename(m.Dir, m.Dir+"-old")
				out, err := b.Plugin.Mount(ctx, m)
				_ = os.RemoveAll(m.Dir + "-old")
				return out, err
			}
		}},
		{"a repeated Unmount fails", "Unmount is idempotent", func(b *broken) {
			done := map[types.UID]bool{}
			b.unmount = func(ctx context.Context, u volume.Unmount) error {
				if done[u.Pod] {
					return errBoom
				}
				done[u.Pod] = true
				return b.Plugin.Unmount(ctx, u)
			}
		}},
		{"Unmount without a Mount fails", "Unmount succeeds without a Mount", func(b *broken) {
			b.unmount = func(_ context.Context, u volume.Unmount) error {
				if _, err := os.Stat(u.Dir); err != nil {
					return err
				}
				return os.RemoveAll(u.Dir)
			}
		}},
		{"Mount after Unmount fails", "Mount succeeds after Unmount", func(b *broken) {
			gone := map[types.UID]bool{}
			b.unmount = func(ctx context.Context, u volume.Unmount) error { gone[u.Pod] = true; return b.Plugin.Unmount(ctx, u) }
			b.before(func(m volume.Mount) error { return map[bool]error{true: errBoom}[gone[m.Pod.UID]] })
		}},
		{"Unmount ignores volumes of an earlier plugin", "Unmount succeeds after a kill between any two calls", func(b *broken) {
			var mine sync.Map
			b.before(func(m volume.Mount) error { mine.Store(m.Pod.UID, true); return nil })
			b.unmount = func(ctx context.Context, u volume.Unmount) error {
				if _, ok := mine.Load(u.Pod); !ok {
					return nil
				}
				return b.Plugin.Unmount(ctx, u)
			}
		}},
		{"an empty folder counts as mounted", "Mount completes a partial mount, Unmount removes it", func(b *broken) {
			b.mount = func(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
				if _, err := os.Stat(m.Dir); err == nil {
					return volume.Mounted{Path: filepath.Join(m.Dir, "content")}, nil
				}
				out, err := b.Plugin.Mount(ctx, m)
				out.Path = filepath.Join(m.Dir, "content")
				return out, err
			}
		}},
		{"Unmount removes all volumes of the pod", "other volumes and files stay unchanged", func(b *broken) {
			b.unmount = func(_ context.Context, u volume.Unmount) error { return os.RemoveAll(filepath.Dir(u.Dir)) }
		}},
		{"Unmount removes volumes with the same prefix", "other volumes and files stay unchanged", func(b *broken) {
			b.unmount = func(_ context.Context, u volume.Unmount) error {
				all, _ := filepath.Glob(u.Dir + "*")
				for _, dir := range all {
					_ = os.RemoveAll(dir)
				}
				return nil
			}
		}},
		{"concurrent mounts fail", "volumes are mounted concurrently", func(b *broken) {
			busy := make(chan struct{}, 1)
			b.mount = func(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
				select {
				case busy <- struct{}{}:
					defer func() { <-busy }()
				default:
					return volume.Mounted{}, errBoom
				}
				time.Sleep(time.Millisecond)
				return b.Plugin.Mount(ctx, m)
			}
		}},
		{"the context is ignored", "calls return if their context is done", func(b *broken) {
			b.unmount = func(ctx context.Context, u volume.Unmount) error {
				if ctx.Err() != nil {
					time.Sleep(time.Hour)
				}
				return nil
			}
		}},
		{"a failed Mount counts as mounted", "a failed Mount can be repeated and unmounted", func(b *broken) {
			b.after(func(m volume.Mount, failed bool) {
				if failed {
					_ = os.MkdirAll(m.StateDir, 0o750)
				}
			})
		}},
		{"a failed remount unmounts", "a failed remount keeps the mounted volume", func(b *broken) {
			b.after(func(m volume.Mount, failed bool) {
				if failed {
					_ = os.RemoveAll(m.Dir)
				}
			})
		}},
		{"Unmount fails on a volume with data", "Mount creates the returned path, Unmount leaves no files", func(b *broken) {
			b.unmount = func(_ context.Context, u volume.Unmount) error {
				_ = os.Remove(filepath.Join(u.Dir, "content"))
				if err := os.Remove(u.Dir); !errors.Is(err, os.ErrNotExist) {
					return err
				}
				return nil
			}
		}},
		{"a repeated Mount wipes the volume", keepsData, func(b *broken) {
			b.before(func(m volume.Mount) error { wipe(m.Dir, "*"); return nil })
		}},
		{"the next agent wipes the volume", keepsData, func(b *broken) {
			mine := map[types.UID]bool{}
			b.before(func(m volume.Mount) error {
				if !mine[m.Pod.UID] {
					wipe(m.Dir, "*")
				}
				mine[m.Pod.UID] = true
				return nil
			})
		}},
		{"a repeated Mount replaces a file", keepsData, func(b *broken) {
			b.before(func(m volume.Mount) error {
				if m.Again {
					_ = os.WriteFile(filepath.Join(m.Dir, usersFiles[0]), nil, 0o600)
				}
				return nil
			})
		}},
		{"a repeated Mount removes links", keepsData, func(b *broken) {
			b.before(func(m volume.Mount) error { wipe(m.Dir, "*link"); return nil })
		}},
		{"a failed remount wipes the volume", "a failed remount keeps the mounted volume", func(b *broken) {
			b.after(func(m volume.Mount, failed bool) {
				if failed {
					wipe(m.Dir, "volumetest-*")
				}
			})
		}},
		{"Mount wipes the folder of the host", keepsData, func(b *broken) {
			b.onHost()
			mount := b.mount
			b.mount = func(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
				wipe(hostFolder(m.Dir), "*")
				return mount(ctx, m)
			}
		}},
		{"Unmount deletes the folder of the host", keepsOthersData, func(b *broken) {
			b.onHost()
			b.unmount = func(_ context.Context, u volume.Unmount) error { return os.RemoveAll(hostFolder(u.Dir)) }
		}},
		{"Unmount wipes the folder of the host", keepsOthersData, func(b *broken) {
			b.onHost()
			b.unmount = func(_ context.Context, u volume.Unmount) error { wipe(hostFolder(u.Dir), "*"); return nil }
		}},
		{"Unmount follows links", keepsOthersData, func(b *broken) {
			b.unmount = func(ctx context.Context, u volume.Unmount) error {
				wipe(filepath.Join(u.Dir, usersFiles[2]), "*")
				return b.Plugin.Unmount(ctx, u)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := subject(t, func(p *Plugin) volume.Plugin {
					b := &broken{p, p.Supports, p.Mount, p.Unmount}
					test.breaks(b)
					return b
				})
				err := play(t.Context(), find(t, test.rule), s)
				require.Error(t, err)
				require.NotContains(t, err.Error(), "%!")
				require.NotContains(t, err.Error(), "<nil>")
				if test.rule == keepsData || test.rule == keepsOthersData {
					require.Regexp(t, "the files of a container in .* have changed|followed a link", err)
				}
				time.Sleep(2 * time.Hour) // let calls return that ignore their context
			})
		})
	}
}

// brokenStager is a Shared with replaceable methods.
type brokenStager struct {
	*Shared
	id      func(*volume.Spec) string
	mount   func(context.Context, volume.Mount) (volume.Mounted, error)
	stage   func(context.Context, volume.Stage) (string, error)
	unstage func(context.Context, string) error
	staged  func(context.Context) ([]string, error)
}

func newBrokenStager(s *Shared) *brokenStager {
	return &brokenStager{s, s.VolumeID, s.Mount, s.Stage, s.Unstage, s.Staged}
}

func (b *brokenStager) VolumeID(s *volume.Spec) string { return b.id(s) }

func (b *brokenStager) Stage(ctx context.Context, s volume.Stage) (string, error) {
	return b.stage(ctx, s)
}

func (b *brokenStager) Mount(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
	return b.mount(ctx, m)
}

func (b *brokenStager) Unstage(ctx context.Context, id string) error { return b.unstage(ctx, id) }

func (b *brokenStager) Staged(ctx context.Context) ([]string, error) { return b.staged(ctx) }

func TestBrokenStagers(t *testing.T) {
	const named = "Stage is idempotent, and Staged lists the volume until Unstage"
	for _, test := range []struct {
		name, rule string
		breaks     func(*brokenStager)
	}{
		{"Staged omits volumes of an earlier plugin", named, func(b *brokenStager) {
			var mine []string
			b.stage = func(ctx context.Context, s volume.Stage) (string, error) {
				mine = append(mine, s.ID)
				return b.Shared.Stage(ctx, s)
			}
			b.staged = func(context.Context) ([]string, error) { return mine, nil }
		}},
		{"a repeated Stage fails", named, func(b *brokenStager) {
			b.stage = func(_ context.Context, s volume.Stage) (string, error) {
				return b.stageDir(s.ID), errors.Join(os.MkdirAll(b.Root, 0o750), os.Mkdir(b.stageDir(s.ID), 0o750))
			}
		}},
		{"Unstage leaves the volume staged", named, func(b *brokenStager) {
			b.unstage = func(context.Context, string) error { return nil }
		}},
		{"Unstage without a Stage fails", "Unstage succeeds without a Stage", func(b *brokenStager) {
			b.unstage = func(_ context.Context, id string) error { return os.Remove(b.stageDir(id)) }
		}},
		{"each pod has its own stage", "pods share one staged volume", func(b *brokenStager) {
			n := 0
			b.id = func(s *volume.Spec) string { n++; return b.Shared.VolumeID(s) + time.Duration(n).String() }
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := sharedSubject(t, func(s *Shared) volume.Plugin {
				b := newBrokenStager(s)
				test.breaks(b)
				return b
			})
			require.Error(t, play(t.Context(), find(t, test.rule), s))
		})
	}
}

// A shared volume is staged once, before all pods mount it concurrently.
func TestStagedOnceInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var staging, mounting, most atomic.Int64
		s := sharedSubject(t, func(s *Shared) volume.Plugin {
			b := newBrokenStager(s)
			b.stage = func(ctx context.Context, st volume.Stage) (string, error) {
				defer staging.Add(-1)
				if staging.Add(1) > 1 || mounting.Load() > 0 {
					return "", errBoom
				}
				time.Sleep(time.Second)
				return s.Stage(ctx, st)
			}
			b.mount = func(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
				most.Store(max(most.Load(), mounting.Add(1)))
				defer mounting.Add(-1)
				time.Sleep(time.Second)
				return s.Mount(ctx, m)
			}
			return b
		})
		one := persistent(false)(&v1.Pod{}, "one")
		s.Spec = func(*v1.Pod, string) *volume.Spec { return copySpec(one) }
		require.NoError(t, play(t.Context(), find(t, "volumes are mounted concurrently"), s))
		require.Greater(t, most.Load(), int64(1))
	})
}

func find(t *testing.T, name string) rule {
	t.Helper()
	for _, r := range rules {
		if r.name == name {
			return r
		}
	}
	require.Fail(t, "no such rule", name)
	return rule{}
}

func TestSubjectIsComplete(t *testing.T) {
	open := func() (volume.Plugin, error) { return &Plugin{}, nil }
	layout := volume.Layout{Root: t.TempDir()}
	for want, s := range map[string]Subject{
		"Subject.Layout": {Open: open, Spec: inline},
		"Subject.Open":   {Layout: layout, Spec: inline},
		"Subject.Spec":   {Layout: layout, Open: open},
	} {
		require.ErrorContains(t, play(t.Context(), rules[0], s), want)
	}
}

package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/examples/kubelet/server"
)

func text(t testing.TB, pod *v1.Pod) string {
	t.Helper()
	data, err := yaml.Marshal(pod)
	require.NoError(t, err)
	return string(data)
}

// badManifests are the ways of being bad, each with what the problem has to say.
func (s *scene) badManifests() map[string]struct {
	put  func(t testing.TB, file string)
	want string
} {
	write := func(content func(t testing.TB) string) func(testing.TB, string) {
		return func(t testing.TB, file string) { s.placeText(t, file, content(t)) }
	}
	literal := func(content string) func(testing.TB, string) {
		return write(func(testing.TB) string { return content })
	}
	edited := func(edit func(*v1.Pod)) func(testing.TB, string) {
		pod := newPod("bad", testprog(s.images.Testprog, "run"))
		edit(pod)
		return write(func(t testing.TB) string { return text(t, pod) })
	}
	// What is made beside a file takes its place in one step, also a folder, which cannot
	// be renamed over it: a manifest that is gone for a moment may be gone for good.
	special := func(make func(aside, path string) error) func(testing.TB, string) {
		return func(t testing.TB, file string) {
			aside, path := filepath.Join(t.TempDir(), file), s.manifest(file)
			require.NoError(t, make(aside, path))
			err := unix.Renameat2(unix.AT_FDCWD, aside, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
			if errors.Is(err, os.ErrNotExist) {
				err = os.Rename(aside, path)
			}
			require.NoError(t, err)
		}
	}
	return map[string]struct {
		put  func(t testing.TB, file string)
		want string
	}{
		"not-yaml": {literal("a: ["), "yaml"},
		"service":  {literal("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"), "kind"},
		"unknown-field": {write(func(t testing.TB) string {
			return strings.Replace(text(t, newPod("u", testprog("x"))), "spec:\n", "spec:\n  hostNetwrk: true\n", 1)
		}), "spec.hostNetwrk"},
		"z-duplicate": {edited(func(p *v1.Pod) { p.Name = "steady" }), "a-steady.yaml"},
		"bad-name":    {edited(func(p *v1.Pod) { p.Name = "Not_A_Name" }), "metadata.name"},
		"too-large":   {literal("#" + strings.Repeat("x", 11<<20)), "bytes"},
		"named-pipe":  {special(func(aside, _ string) error { return syscall.Mkfifo(aside, 0o644) }), "pipe"},
		"dangling":    {special(func(aside, _ string) error { return os.Symlink("nowhere", aside) }), "link"},
		"loop":        {special(func(aside, path string) error { return os.Symlink(path, aside) }), "links"},
		"folder":      {special(func(aside, _ string) error { return os.Mkdir(aside, 0o755) }), "folder"},
		"empty":       {literal(""), "empty"},
		"unsupported": {edited(func(p *v1.Pod) {
			p.Spec.OS = &v1.PodOS{Name: v1.Windows}
		}), "spec.os"},
		"no-image": {edited(func(p *v1.Pod) { p.Spec.Containers[0].Image = "" }), "spec.containers[0].image"},
	}
}

// S6, S7, S10 and A33: each bad manifest is one problem that names file and
// reason, one line of the log, and disturbs nobody.
func TestBadManifests(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		s.place(t, "a-steady.yaml", newPod("steady", testprog(s.images.Testprog, "run")))
		steady := s.running(t, "steady")
		bad := s.badManifests()
		for name, c := range bad {
			c.put(t, name+".yaml")
		}
		for name, c := range bad {
			s.hasProblem(t, name+".yaml", c.want, false)
		}
		// Other manifests come and go; nobody says it all again.
		for i := range 3 {
			name := fmt.Sprintf("later-%d", i)
			s.place(t, name+".yaml", newPod(name, testprog(s.images.Testprog, "run")))
			s.running(t, name)
		}
		for name := range bad {
			s.saidOnce(t, name+".yaml")
		}
		require.NoError(t, s.untouched(steady, "steady"))

		for name := range bad {
			require.NoError(t, os.RemoveAll(s.manifest(name+".yaml")))
		}
		wait(t, 10*time.Second, "no problem is left", func() error {
			r, err := s.statusz()
			if err == nil && len(r.Manifests) > 0 {
				err = fmt.Errorf("%+v", r.Manifests)
			}
			return err
		})
		require.NoError(t, s.untouched(steady, "steady"))
		require.Len(t, s.see(t).running(), 4)
	})
}

func (s *scene) problem(file string) (*server.ManifestProblem, error) {
	r, err := s.statusz()
	if err != nil {
		return nil, err
	}
	for i := range r.Manifests {
		if r.Manifests[i].Path == s.manifest(file) {
			return &r.Manifests[i], nil
		}
	}
	return nil, fmt.Errorf("no problem of %s in %+v", file, r.Manifests)
}

// hasProblem waits for the problem of a file.
func (s *scene) hasProblem(t *testing.T, file, want string, kept bool) {
	t.Helper()
	wait(t, 10*time.Second, "problem of "+file, func() error {
		p, err := s.problem(file)
		if err == nil && (!strings.Contains(p.Message, want) || p.KeptPrevious != kept) {
			err = fmt.Errorf("want %q, kept %v: %+v", want, kept, *p)
		}
		return err
	})
}

func (s *scene) saidOnce(t *testing.T, file string) {
	t.Helper()
	lines := s.logLines(t, s.manifest(file)+" ", "level=WARN")
	require.Len(t, lines, 1, file)
}

// S7: a manifest that turns bad keeps its pod, however it turns bad, and when it
// is good again that is what runs.
func TestManifestTurnsBad(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		s.place(t, "a-steady.yaml", newPod("steady", testprog(s.images.Testprog, "run")))
		bad := s.badManifests()
		// One that names another pod is no bad version of its own: the pod that it
		// does not name any more goes.
		delete(bad, "z-duplicate")
		before := map[string]*v1.Pod{}
		for name := range bad {
			s.place(t, name+".yaml", newPod("was-"+name, testprog(s.images.Testprog, "run")))
		}
		for name := range bad {
			before[name] = s.running(t, "was-"+name)
		}
		for name, c := range bad {
			c.put(t, name+".yaml")
		}
		for name, c := range bad {
			s.hasProblem(t, name+".yaml", c.want, true)
			s.saidOnce(t, name+".yaml")
		}
		hold(t, time.Second, "the pods go on", func() error {
			for name, was := range before {
				if err := s.untouched(was, "was-"+name); err != nil {
					return err
				}
			}
			return nil
		})
		for name := range bad {
			require.NoError(t, os.RemoveAll(s.manifest(name+".yaml")))
			pod := newPod("was-"+name, testprog(s.images.Testprog2, "run"))
			s.place(t, name+".yaml", pod)
		}
		for name, was := range before {
			wait(t, 40*time.Second, name+" is replaced", func() error {
				p, err := s.pod("was-" + name)
				if err == nil && p.UID == was.UID {
					err = errors.New("still the old pod")
				}
				return errors.Join(err, s.isRunning("was-"+name))
			})
		}
	})
}

// S7: half of a manifest is no pod. While it is being written nothing is said of
// it; when the writer gives up halfway that is a problem, until somebody ends it.
func TestHalfWrittenManifest(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		wait(t, 20*time.Second, "the kubelet is up", s.healthy)
		content := text(t, newPod("slow", testprog(s.images.Testprog, "run")))
		half := strings.Index(content, "image:") + 3
		f, err := os.Create(s.manifest("slow.yaml"))
		require.NoError(t, err)
		defer f.Close()
		_, err = f.WriteString(content[:half])
		require.NoError(t, err)
		hold(t, 1500*time.Millisecond, "it is not complete", func() error {
			r, err := s.statusz()
			if len(r.Manifests)+len(r.Pods) > 0 {
				err = fmt.Errorf("%+v %+v", r.Manifests, r.Pods)
			}
			return err
		})
		_, err = f.WriteString(content[half:])
		require.NoError(t, err)
		require.NoError(t, f.Close())
		s.running(t, "slow")
		require.Empty(t, s.logLines(t, s.manifest("slow.yaml")+" ", "level=WARN"))

		other := text(t, newPod("given-up", testprog(s.images.Testprog, "run")))
		require.NoError(t, os.WriteFile(s.manifest("given-up.yaml"), []byte(other[:strings.Index(other, "image:")+3]), 0o644))
		s.hasProblem(t, "given-up.yaml", "", false)
		s.saidOnce(t, "given-up.yaml")
		require.NoError(t, os.WriteFile(s.manifest("given-up.yaml"), []byte(other), 0o644))
		s.running(t, "given-up")
		_, err = s.problem("given-up.yaml")
		require.ErrorContains(t, err, "no problem")
	})
}

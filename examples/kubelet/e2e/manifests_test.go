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

func podYAML(t testing.TB, pod *v1.Pod) string {
	t.Helper()
	data, err := yaml.Marshal(pod)
	require.NoError(t, err)
	return string(data)
}

// badManifests are the kinds of bad manifests, each with the expected problem.
func (s *scene) badManifests() map[string]struct {
	put  func(t testing.TB, file string)
	want string
} {
	write := func(content func(t testing.TB) string) func(testing.TB, string) {
		return func(t testing.TB, file string) { s.writeManifestText(t, file, content(t)) }
	}
	literal := func(content string) func(testing.TB, string) {
		return write(func(testing.TB) string { return content })
	}
	edited := func(edit func(*v1.Pod)) func(testing.TB, string) {
		pod := newPod("bad", testprog(s.images.Testprog, "run"))
		edit(pod)
		return write(func(t testing.TB) string { return podYAML(t, pod) })
	}
	// Each entry is created beside the target and exchanged with it atomically, also a folder,
	// which cannot be renamed over a file: a manifest that is missing for a moment may count as
	// removed.
	special := func(make func(aside, path string) error) func(testing.TB, string) {
		return func(t testing.TB, file string) {
			aside, path := filepath.Join(t.TempDir(), file), s.manifestPath(file)
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
			return strings.Replace(podYAML(t, newPod("u", testprog("x"))), "spec:\n", "spec:\n  hostNetwrk: true\n", 1)
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

// S6, S7, S10 and A33: each bad manifest is one problem with file and reason and one line of the
// log, and does not affect other pods.
func TestBadManifests(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		s.writeManifest(t, "a-steady.yaml", newPod("steady", testprog(s.images.Testprog, "run")))
		steady := s.running(t, "steady")
		bad := s.badManifests()
		for name, c := range bad {
			c.put(t, name+".yaml")
		}
		for name, c := range bad {
			s.hasProblem(t, name+".yaml", c.want, false)
		}
		// Changes of other manifests do not repeat the messages.
		for i := range 3 {
			name := fmt.Sprintf("later-%d", i)
			s.writeManifest(t, name+".yaml", newPod(name, testprog(s.images.Testprog, "run")))
			s.running(t, name)
		}
		for name := range bad {
			s.requireLoggedOnce(t, name+".yaml")
		}
		require.NoError(t, s.untouched(steady, "steady"))

		for name := range bad {
			require.NoError(t, os.RemoveAll(s.manifestPath(name+".yaml")))
		}
		wait(t, 10*time.Second, "no problem is reported", func() error {
			r, err := s.statusz()
			if err == nil && len(r.Manifests) > 0 {
				err = fmt.Errorf("%+v", r.Manifests)
			}
			return err
		})
		require.NoError(t, s.untouched(steady, "steady"))
		require.Len(t, s.mustRuntimeState(t).running(), 4)
	})
}

func (s *scene) problem(file string) (*server.ManifestProblem, error) {
	r, err := s.statusz()
	if err != nil {
		return nil, err
	}
	for i := range r.Manifests {
		if r.Manifests[i].Path == s.manifestPath(file) {
			return &r.Manifests[i], nil
		}
	}
	return nil, fmt.Errorf("no problem of %s in %+v", file, r.Manifests)
}

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

func (s *scene) requireLoggedOnce(t *testing.T, file string) {
	t.Helper()
	lines := s.logLines(t, s.manifestPath(file)+" ", "level=WARN")
	require.Len(t, lines, 1, file)
}

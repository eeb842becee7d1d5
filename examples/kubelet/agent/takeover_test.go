package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A static pod of another kubelet keeps its UID if its manifest is older than the pod, also later,
// when the manifest was touched. Other pods get the derived UID.
func TestTakeoverOfStaticPods(t *testing.T) {
	for name, c := range map[string]struct {
		pods   []string // folders of logs, each with a folder of the pod
		change func(t *testing.T, k takeover, path string)
		want   types.UID
	}{
		"same manifest":            {pods: []string{"ns_web-n_old"}, want: "old"},
		"no pod":                   {want: "derived"},
		"other names":              {pods: []string{"ns_web_old", "default_web-n_a", "ns_web-n2_b"}, want: "derived"},
		"two pods":                 {pods: []string{"ns_web-n_old", "ns_web-n_older"}, want: "derived"},
		"its own pod beside it":    {pods: []string{"ns_web-n_old", "ns_web-n_derived"}, want: "derived"},
		"a pod without its folder": {pods: []string{"ns_web-n_old"}, change: func(t *testing.T, k takeover, _ string) { require.NoError(t, os.Remove(k.folders.pod("old"))) }, want: "derived"},
		"changed manifest":         {pods: []string{"ns_web-n_old"}, change: func(t *testing.T, _ takeover, path string) { touch(t, path) }, want: "derived"},
		"replaced link": {pods: []string{"ns_web-n_old"}, change: func(t *testing.T, _ takeover, path string) {
			require.NoError(t, os.Rename(path, path+".1"))
			require.NoError(t, os.Symlink(path+".1", path))
		}, want: "derived"},
		"a pod of this kubelet": {pods: []string{"ns_web-n_old"}, change: func(t *testing.T, k takeover, _ string) { touch(t, k.folders.status("old")) }, want: "derived"},
		"touched after the takeover": {pods: []string{"ns_web-n_old"}, change: func(t *testing.T, k takeover, path string) {
			require.EqualValues(t, "old", k.uid(webPod("derived"), "file:"+path))
			touch(t, k.folders.status("old"))
			touch(t, path)
			require.EqualValues(t, "changed", k.uid(webPod("changed"), "file:"+path))
		}, want: "old"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "web.yaml")
			touch(t, path)
			k := takeover{folders: folders{root: filepath.Join(dir, "root")}, logs: filepath.Join(dir, "logs"), log: slog.New(slog.DiscardHandler)}
			for _, pod := range c.pods {
				require.NoError(t, os.MkdirAll(filepath.Join(k.logs, pod), 0o755))
				require.NoError(t, os.MkdirAll(k.folders.pod(types.UID(pod[strings.LastIndex(pod, "_")+1:])), 0o755))
			}
			if c.change != nil {
				c.change(t, k, path)
			}
			require.Equal(t, c.want, k.uid(webPod("derived"), "file:"+path))
			require.EqualValues(t, "derived", k.uid(webPod("derived"), "url:"+path))
		})
	}
}

func webPod(uid types.UID) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-n", UID: uid}}
}

// touch writes a file. Its times differ from those of all files before and after.
func touch(t *testing.T, path string) {
	const granularity = 20 * time.Millisecond // of a filesystem's times
	time.Sleep(granularity)
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	time.Sleep(granularity)
}

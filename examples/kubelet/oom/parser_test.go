package oom

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// records returns the records of a recorded log in the format of /dev/kmsg.
func records(t testing.TB, file string) [][]byte {
	data, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	return bytes.SplitAfter(bytes.TrimSuffix(data, []byte{'\n'}), []byte{'\n'})
}

func kills(t testing.TB, records [][]byte) (out []Kill) {
	var p Parser
	for _, r := range records {
		line, ok := text(r)
		require.True(t, ok, "%q", r)
		if k, ok := p.Line(line); ok {
			out = append(out, k)
		}
	}
	return out
}

// Logs of kernels with cgroup v1 and v2 are parsed. Those of 6.1 and 6.18 are complete recordings
// except for registers and memory statistics. The older ones are composed from published logs.
func TestRecordedLogs(t *testing.T) {
	const (
		guaranteed = "/kubepods/pod95387fa4-da9c-11e7-9d36-5254b24cbf5e"
		envoy      = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0330b2c1_a15b_4cdd_b5e5_72d4a90bee82.slice/docker-b2720.scope"
		burstable  = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podeded8c65_6e8e_4c6e_a889_3e427565c740.slice"
	)
	for file, want := range map[string][]Kill{
		"linux-3.10-cgroup.kmsg": {{PID: 28438, Process: "java", Limit: guaranteed, Cgroup: guaranteed + "/6895a3e13439535852d3184ac2aadd26d7363cc035f171545ec7d4ce74073b0b"}},
		"linux-3.10-node.kmsg":   {{PID: 799153, Process: "node", Limit: Node}},
		"linux-4.9-node.kmsg":    {{PID: 27438, Process: "R", Limit: Node}},
		"linux-4.19-cgroup.kmsg": {{PID: 21284, Process: "envoy", Limit: envoy, Cgroup: envoy}},
		"linux-5.4-node.kmsg": { // the second kill has no oom-killer line, so it has few details
			{PID: 15925, Process: "(resolved)", Limit: Node, Cgroup: "/system.slice/systemd-resolved.service"},
			{PID: 15783, Process: "python3", Limit: Node},
		},
		// The node has run out of memory, and the victim is in a container.
		"linux-5.15-pod-of-node.kmsg": {{PID: 1811, Process: "stress-ng", Limit: Node, Cgroup: "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice/cri-containerd-2.scope"}},
		"linux-5.15-pod.kmsg":         {{PID: 461754, Process: "pt_main_thread", Limit: burstable, Cgroup: burstable + "/cri-containerd-ec9ee26.scope"}},
		"linux-6.18-cgroup.kmsg":      {{PID: 14262, Process: "tail", Limit: "/limited", Cgroup: "/limited"}},
		"linux-6.1-v2.kmsg": {
			{PID: 336, Process: "tail", Limit: "/rec", Cgroup: "/rec/in"},
			{PID: 339, Process: "tail", Limit: "/rec", Cgroup: "/rec/in"},
			{PID: 337, Process: "sh"}, {PID: 338, Process: "sleep"}, {PID: 339, Process: "tail"}, // memory.oom.group
			{PID: 344, Process: "x) y,pid=9", Limit: Node, Cgroup: "/system.slice/victim.service"},
		},
	} {
		t.Run(file, func(t *testing.T) {
			got := kills(t, records(t, file))
			require.Equal(t, want, got)
			for _, k := range got {
				require.Equal(t, k.Limit == "/", k.OfNode())
			}
		})
	}
}

// If lines are missing, a kill of a cgroup is still not reported as the node's.
func TestMissingLines(t *testing.T) {
	var p Parser
	line := func(text string) (Kill, bool) { return p.Line(text) }
	k, ok := line("Memory cgroup out of memory: Killed process 7 (a) total-vm:1kB")
	require.True(t, ok)
	require.Equal(t, Kill{PID: 7, Process: "a"}, k)

	// Incomplete summaries, as in older kernels.
	_, ok = line("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)")
	require.False(t, ok)
	_, ok = line(",cpuset=/,mems_allowed=0")
	require.False(t, ok)
	k, ok = line("Memory cgroup out of memory: Killed process 8 (b) total-vm:1kB")
	require.True(t, ok)
	require.False(t, k.OfNode())

	// An incomplete kill does not affect the next one.
	_, ok = line("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,task_memcg=/a/b,task=x,pid=7,uid=0")
	require.False(t, ok)
	p.Reset()
	k, ok = line("Out of memory: Killed process 9 (c) total-vm:1kB")
	require.True(t, ok)
	require.Equal(t, Kill{PID: 9, Process: "c", Limit: Node}, k)
	_, ok = line("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,task_memcg=/a/b,task=x,pid=7,uid=0")
	require.False(t, ok)
	_, ok = line("z invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0")
	require.False(t, ok)
	k, ok = line("Out of memory: Killed process 10 (d) total-vm:1kB")
	require.True(t, ok)
	require.True(t, k.OfNode())
}

// Names of cgroups may have commas and equal signs.
func TestNamesOfCgroups(t *testing.T) {
	limit, cgroup := cgroups("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,b,mems_allowed=0-1,oom_memcg=/a,b=c,task_memcg=/a,b=c/d,e,task=x,pid=7,uid=0")
	require.Equal(t, "/a,b=c", limit)
	require.Equal(t, "/a,b=c/d,e", cgroup)
}

// Records of other sources and lines without a victim yield no kill.
func TestNoKill(t *testing.T) {
	for _, record := range []string{
		"", ";", "4;Out of memory: Killed process 1 (a)", "x,1,2,-;Out of memory: Killed process 1 (a)",
		"-4,1,2,-;Out of memory: Killed process 1 (a)",
		"12,1,2,-;Out of memory: Killed process 1 (a)", // of a process: user level
		"30,1,2,-;Out of memory: Killed process 1 (a)", // of a daemon
		"4,1,2,-\nOut of memory: Killed process 1 (a)", // no text
		"99999999999,1,2,-;Out of memory: Killed process 1 (a)",
	} {
		_, ok := text([]byte(record))
		require.False(t, ok, record)
	}
	got, ok := text([]byte("4,1,2,-,caller=T7;text; more\n SUBSYSTEM=x\n DEVICE=y\n"))
	require.True(t, ok)
	require.Equal(t, "text; more", got)
	for _, line := range []string{
		"", "Out of memory: Kill process 1 (a) score 3 or sacrifice child", "Killed process (a)", "Killed process x (a)", "Killed process 0 (a)", "Killed process -1 (a)",
		"Killed process 1 a", "Killed process 1 (a", "Killed process 99999999999999999999 (a)", "oom_reaper: reaped process 1 (a), now anon-rss:0kB",
	} {
		_, ok := new(Parser).Line(line)
		require.False(t, ok, line)
	}
}

// With any input, a kill has a victim, and a cgroup's kill is not reported as the node's.
func FuzzParser(f *testing.F) {
	files, err := filepath.Glob("testdata/*.kmsg")
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		var p Parser
		for record := range bytes.Lines(log) {
			line, ok := text(record)
			if !ok {
				continue
			}
			require.NotContains(t, line, "\n")
			k, ok := p.Line(line)
			if !ok {
				continue
			}
			require.Positive(t, k.PID)
			require.Contains(t, line, k.Process)
			require.False(t, k.OfNode() && strings.HasPrefix(line, memoryOfCgroup) && k.Cgroup == "", line)
		}
	})
}

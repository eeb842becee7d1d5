package iptables_test

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/examples/kubelet/iptables"
)

// made is the output of iptables with the chains of the reference.
const made = `-N KUBE-FIREWALL
-N KUBE-KUBELET-CANARY
-A INPUT -j KUBE-FIREWALL
-A OUTPUT -j KUBE-FIREWALL
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
`

// The real iptables has the same chains as with the reference, also after a flush.
func TestRealIPTables(t *testing.T) {
	_, err := exec.LookPath("iptables")
	if _, err6 := exec.LookPath("ip6tables"); err != nil || err6 != nil || os.Geteuid() != 0 {
		require.NotEqual(t, "1", os.Getenv("PODWRIGHT_REQUIRE_CRI"), "needs iptables, and root")
		t.Skip("needs iptables, and root")
	}
	// Programs of this thread have a private network namespace, which ends with the test.
	inOwnNetwork := make(chan struct{})
	go func() {
		defer close(inOwnNetwork)
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		keepThrice(t)
	}()
	<-inOwnNetwork
}

// keepThrice runs Keepers on an empty node, after a flush, and with the chains of an earlier
// Keeper.
func keepThrice(t *testing.T) {
	show := func(program, table string) string {
		_, out, err := iptables.Exec(t.Context(), program, "-t", table, "-S")
		if err != nil {
			t.Error(err)
		}
		var rules strings.Builder
		for line := range strings.Lines(out) {
			if !strings.HasPrefix(line, "-P ") {
				rules.WriteString(line)
			}
		}
		return rules.String()
	}
	check := func(when string) {
		for _, c := range [][3]string{
			{"iptables", "filter", made}, {"iptables", "nat", "-N KUBE-KUBELET-CANARY\n"}, {"iptables", "mangle", "-N KUBE-IPTABLES-HINT\n-N KUBE-KUBELET-CANARY\n"},
			{"ip6tables", "filter", "-N KUBE-KUBELET-CANARY\n"}, {"ip6tables", "nat", "-N KUBE-KUBELET-CANARY\n"}, {"ip6tables", "mangle", "-N KUBE-IPTABLES-HINT\n-N KUBE-KUBELET-CANARY\n"},
		} {
			if got := show(c[0], c[1]); got != c[2] {
				t.Errorf("%s: %s -t %s:\n%s\nwant:\n%s", when, c[0], c[1], got, c[2])
			}
		}
	}
	// run counts the checks of the last canary: each ends a round.
	run := func(rounds int, after func(round int)) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		looks := 0
		keeper, err := iptables.New(iptables.Config{Period: 10 * time.Millisecond, Command: func(ctx context.Context, program string, args ...string) (int, string, error) {
			code, out, err := iptables.Exec(ctx, program, args...)
			if program == "ip6tables" && args[3] == "filter" && args[4] == "-S" && code == 0 {
				if looks++; looks == rounds {
					cancel()
				} else {
					after(looks)
				}
			}
			return code, out, err
		}})
		if err != nil {
			t.Error(err)
			return
		}
		if err := keeper.Run(ctx); err != nil || looks != rounds {
			t.Error(looks, err)
		}
	}
	run(2, func(int) {
		check("made")
		for _, table := range []string{"filter", "nat", "mangle"} {
			for _, program := range []string{"iptables", "ip6tables"} {
				_, _, _ = iptables.Exec(t.Context(), program, "-t", table, "-F")
				_, _, _ = iptables.Exec(t.Context(), program, "-t", table, "-X")
			}
		}
		if got := show("iptables", "filter"); got != "" {
			t.Errorf("not flushed: %s", got)
		}
	})
	check("after a flush")
	run(1, nil)
	check("taken over")
}

func TestExec(t *testing.T) {
	code, out, err := iptables.Exec(t.Context(), "sh", "-c", "echo both; echo streams >&2; exit 7")
	require.NoError(t, err)
	require.Equal(t, 7, code)
	require.Equal(t, "both\nstreams\n", out)
	_, _, err = iptables.Exec(t.Context(), "there-is-no-such-program")
	require.ErrorIs(t, err, exec.ErrNotFound)
	_, _, err = iptables.Exec(t.Context(), "sh", "-c", "kill -9 $$")
	require.ErrorContains(t, err, "killed")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = iptables.Exec(ctx, "sleep", "600")
	require.Error(t, err)
}

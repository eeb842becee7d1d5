package iptables_test

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/podwright/podwright/examples/kubelet/iptables"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kernel is a fake of the kernel's chains and rules. It executes commands like iptables.
type kernel struct {
	mu     sync.Mutex
	chains map[string][]string // rules, by "program table chain"
	// commands has the commands since it was last cleared, without the common arguments.
	commands []string
	// fails maps commands to exit codes.
	fails   map[string]int
	missing []string
}

func newKernel() *kernel {
	k := &kernel{chains: map[string][]string{}, fails: map[string]int{}}
	for _, program := range []string{"iptables", "ip6tables"} {
		for _, chain := range []string{"nat POSTROUTING", "filter INPUT", "filter OUTPUT"} {
			k.chains[program+" "+chain] = []string{"somebody's"}
		}
	}
	return k
}

func (k *kernel) command(_ context.Context, program string, args ...string) (int, string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.Contains(k.missing, program) {
		return 0, "", exec.ErrNotFound
	}
	if !slices.Equal(args[:3], []string{"-w", "5", "-t"}) {
		return 2, "no lock, or no table", nil
	}
	text := program + " " + strings.Join(args[3:], " ")
	k.commands = append(k.commands, text)
	if code := k.fails[text]; code != 0 {
		return code, "something\nof the kernel's", nil
	}
	table, op, chain, rule := args[3], args[4], args[5], strings.Join(args[6:], " ")
	name := program + " " + table + " " + chain
	rules, there := k.chains[name]
	switch {
	case op == "-N" && !there:
		k.chains[name] = nil
	case op == "-N", !there, op == "-C" && !slices.Contains(rules, rule):
		return 1, "no", nil
	case op == "-I":
		k.chains[name] = slices.Insert(rules, 0, rule)
	case op == "-A":
		k.chains[name] = append(rules, rule)
	}
	return 0, "", nil
}

func (k *kernel) change(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

func (k *kernel) now() map[string][]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.chains)
}

func (k *kernel) take() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	said := k.commands
	k.commands = nil
	return said
}

// flush removes the rules of a table, and its chains other than the built-in ones. An empty name
// means all tables.
func (k *kernel) flush(table string) {
	for name := range k.chains {
		of, chain := strings.Fields(name)[1], strings.Fields(name)[2]
		if table != "" && of != table {
			continue
		}
		k.chains[name] = nil
		if strings.HasPrefix(chain, "KUBE-") {
			delete(k.chains, name)
		}
	}
}

func keeping(t *testing.T, k *kernel, test func(log *bytes.Buffer)) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		keeper, err := iptables.New(iptables.Config{Command: k.command, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- keeper.Run(ctx) }()
		synctest.Wait()
		test(&log)
		cancel()
		require.NoError(t, <-ended)
		require.ErrorIs(t, keeper.Run(ctx), iptables.ErrAlreadyRun)
	})
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

const drop = "-m comment --comment block incoming localnet connections --dst 127.0.0.0/8 ! --src 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP"

// begin has the commands for a node without chains.
var begin = []string{
	"iptables nat -S POSTROUTING", "ip6tables nat -S POSTROUTING",
	"iptables mangle -S KUBE-KUBELET-CANARY",
	"iptables mangle -N KUBE-IPTABLES-HINT", "iptables filter -N KUBE-FIREWALL",
	"iptables filter -C OUTPUT -j KUBE-FIREWALL", "iptables filter -I OUTPUT -j KUBE-FIREWALL",
	"iptables filter -C INPUT -j KUBE-FIREWALL", "iptables filter -I INPUT -j KUBE-FIREWALL",
	"iptables filter -C KUBE-FIREWALL " + drop, "iptables filter -A KUBE-FIREWALL " + drop,
	"iptables mangle -N KUBE-KUBELET-CANARY", "iptables nat -N KUBE-KUBELET-CANARY", "iptables filter -N KUBE-KUBELET-CANARY",
	"ip6tables mangle -S KUBE-KUBELET-CANARY",
	"ip6tables mangle -N KUBE-IPTABLES-HINT",
	"ip6tables mangle -N KUBE-KUBELET-CANARY", "ip6tables nat -N KUBE-KUBELET-CANARY", "ip6tables filter -N KUBE-KUBELET-CANARY",
}

var look = []string{
	"iptables mangle -S KUBE-KUBELET-CANARY", "iptables nat -S KUBE-KUBELET-CANARY", "iptables filter -S KUBE-KUBELET-CANARY",
	"ip6tables mangle -S KUBE-KUBELET-CANARY", "ip6tables nat -S KUBE-KUBELET-CANARY", "ip6tables filter -S KUBE-KUBELET-CANARY",
}

// Missing chains are created once. After that each minute only checks them.
func TestCommands(t *testing.T) {
	k := newKernel()
	keeping(t, k, func(log *bytes.Buffer) {
		require.Equal(t, begin, k.take())
		require.Equal(t, []string{"-j KUBE-FIREWALL", "somebody's"}, k.now()["iptables filter INPUT"])
		require.Equal(t, []string{drop}, k.now()["iptables filter KUBE-FIREWALL"])
		require.Equal(t, []string{"somebody's"}, k.now()["ip6tables filter INPUT"])
		pass(59 * time.Second)
		require.Empty(t, k.take())
		pass(time.Second)
		require.Equal(t, look, k.take())
		pass(time.Minute)
		require.Equal(t, look, k.take())
		require.Equal(t, 2, strings.Count(log.String(), "iptables chains for other programs created"))
	})
	// The next kubelet finds all of them.
	before := len(k.now())
	keeping(t, k, func(log *bytes.Buffer) {
		require.Equal(t, append(slices.Clone(begin[:2]), look...), k.take())
		require.Len(t, k.now(), before)
		require.Empty(t, log.String())
	})
}

// Within a minute after a flush of any table all chains exist again, with each rule once.
func TestFlush(t *testing.T) {
	for _, table := range []string{"mangle", "nat", "filter", ""} {
		t.Run(table, func(t *testing.T) {
			k := newKernel()
			keeping(t, k, func(*bytes.Buffer) {
				made := len(k.now())
				k.change(func() { k.flush(table) })
				require.Less(t, len(k.now()), made)
				pass(time.Minute)
				require.Len(t, k.now(), made)
				for _, chain := range []string{"INPUT", "OUTPUT"} {
					require.Equal(t, 1, strings.Count(strings.Join(k.now()["iptables filter "+chain], ";"), "KUBE-FIREWALL"))
				}
				require.Equal(t, []string{drop}, k.now()["iptables filter KUBE-FIREWALL"])
				k.take()
				pass(time.Minute)
				require.Equal(t, look, k.take())
			})
		})
	}
}

// A failure is logged once, does not affect the other family, and is retried.
func TestFailures(t *testing.T) {
	for _, command := range []string{
		"iptables mangle -N KUBE-IPTABLES-HINT", "iptables filter -C INPUT -j KUBE-FIREWALL",
		"iptables filter -A KUBE-FIREWALL " + drop, "iptables nat -N KUBE-KUBELET-CANARY",
	} {
		t.Run(command, func(t *testing.T) {
			k := newKernel()
			k.fails[command] = 4
			keeping(t, k, func(log *bytes.Buffer) {
				pass(3 * time.Minute)
				require.Equal(t, 1, strings.Count(log.String(), "not created"), log.String())
				require.Contains(t, log.String(), "exit code 4")
				require.Contains(t, k.now(), "ip6tables filter KUBE-KUBELET-CANARY")
				require.NotContains(t, k.now(), "iptables filter KUBE-KUBELET-CANARY")
				k.change(func() { delete(k.fails, command) })
				pass(time.Minute)
				require.Contains(t, k.now(), "iptables filter KUBE-KUBELET-CANARY")
				require.Equal(t, []string{drop}, k.now()["iptables filter KUBE-FIREWALL"])
				k.change(func() { k.fails[command], k.chains = 4, newKernel().chains })
				pass(time.Minute)
				require.Equal(t, 2, strings.Count(log.String(), "not created"), "a failure after a success is logged again")
			})
		})
	}
}

// A node without iptables, or without the permission to use it, is logged once. A node without IPv6
// is not logged.
func TestMissingIPTables(t *testing.T) {
	none := newKernel()
	none.missing = []string{"iptables", "ip6tables"}
	keeping(t, none, func(log *bytes.Buffer) {
		pass(time.Hour)
		require.Equal(t, 1, strings.Count(log.String(), "\n"))
		require.Contains(t, log.String(), "iptables not available")
		require.Contains(t, log.String(), "executable file not found")
	})
	forbidden := newKernel()
	forbidden.fails["iptables nat -S POSTROUTING"], forbidden.fails["ip6tables nat -S POSTROUTING"] = 4, 4
	keeping(t, forbidden, func(log *bytes.Buffer) {
		pass(time.Hour)
		require.Equal(t, begin[:2], forbidden.take())
		require.Equal(t, 1, strings.Count(log.String(), "\n"))
	})
	only4 := newKernel()
	only4.missing = []string{"ip6tables"}
	keeping(t, only4, func(log *bytes.Buffer) {
		require.NotContains(t, log.String(), "iptables not available")
		pass(time.Minute)
		require.Equal(t, look[:3], only4.take()[len(begin)-6:])
	})
}

func TestBadConfig(t *testing.T) {
	_, err := iptables.New(iptables.Config{Period: -1})
	require.EqualError(t, err, "iptables: Config.Period is negative: -1ns")
}

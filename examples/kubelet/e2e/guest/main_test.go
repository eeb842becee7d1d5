package guest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	podcgroups "github.com/podwright/podwright/cri/cgroups"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/examples/kubelet/agent"
	"github.com/podwright/podwright/examples/kubelet/apparmor"
	"github.com/podwright/podwright/examples/kubelet/cgroups"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/examples/kubelet/shutdown"
	"github.com/podwright/podwright/examples/kubelet/systemd"
	"github.com/podwright/podwright/internal/run"
)

// programVariable selects the program that this binary runs instead of the tests; settingsVariable
// has the settings of an agent.
const (
	programVariable  = "PODWRIGHT_PROGRAM"
	settingsVariable = "PODWRIGHT_SETTINGS"
)

var programs = map[string]func() error{
	"agent":    runAgent,
	"pause":    waitForEnd,
	"hog":      hog,
	"bomb":     bomb,
	"linger":   linger,
	"confined": confined,
}

func TestMain(m *testing.M) {
	program, ok := programs[os.Getenv(programVariable)]
	if !ok {
		goleak.VerifyTestMain(m)
		return
	}
	if err := program(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func waitForEnd() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	<-ctx.Done()
	return nil
}

func linger() error {
	err := waitForEnd()
	time.Sleep(10 * time.Second)
	return err
}

// confined prints its AppArmor profile and an error if the profile forbids its write.
func confined() error {
	profile, err := os.ReadFile("/proc/self/attr/current")
	if err != nil {
		return err
	}
	fmt.Print(string(profile))
	if err := os.WriteFile("/tmp/forbidden", nil, 0o600); err != nil {
		fmt.Println("forbidden:", errors.Unwrap(err))
	}
	return waitForEnd()
}

// hog allocates memory up to 4 GiB.
func hog() error {
	var all [][]byte
	for {
		piece := make([]byte, 1<<20)
		for i := range piece {
			piece[i] = 1
		}
		all = append(all, piece)
		if len(all) > 1<<12 {
			return fmt.Errorf("allocated %d MiB", len(all))
		}
	}
}

// bomb starts processes without end and ignores failures.
func bomb() error {
	for {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = []string{programVariable + "=pause"}
		if err := cmd.Start(); err != nil {
			time.Sleep(time.Second)
		}
	}
}

// settings configure an agent with all its files below Folder.
type settings struct {
	Folder, Driver, Root string
}

const socket = "unix:///run/containerd/containerd.sock"

func runAgent() error {
	var s settings
	if err := json.Unmarshal([]byte(os.Getenv(settingsVariable)), &s); err != nil {
		return err
	}
	client := cri.ClientConfig{Endpoint: socket}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg := agent.Config{Config: config.Default(), Connect: agent.Dial(client, client), Logger: log}
	cfg.Cgroups = func(driver podcgroups.Driver) (cgroups.Kernel, error) { return cgroups.NewHost(driver) }
	cfg.Flags.NodeName, cfg.Flags.RootDir = "guest", filepath.Join(s.Folder, "root")
	k := &cfg.Kubelet
	k.PodLogsDir, k.StaticPodPath = filepath.Join(s.Folder, "logs"), filepath.Join(s.Folder, "manifests")
	k.CgroupDriver, k.CgroupRoot, k.PodPidsLimit = s.Driver, s.Root, new(int64(64))
	k.EvictionHard = map[string]string{"memory.available": "10Mi"}
	cfg.AppArmor = apparmor.Enabled(os.DirFS("/sys"))
	cfg.Login, k.ShutdownGracePeriod.Duration = shutdown.Logind{}, time.Minute
	a, err := agent.New(cfg)
	if err != nil {
		return err
	}
	manager, err := systemd.New(systemd.Config{Check: func() error { return nil }, Logger: log})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return run.All(ctx, a.Run, manager.Run, func(ctx context.Context) error { err := manager.Ready(); <-ctx.Done(); return err })
}

package critest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/podwright/podwright/cri/fake"
)

// echoPort is the port of the program echoServer.
const echoPort = 8080

// Programs for cases about streaming sessions.
var (
	// echoes copies its input and ends with code 5.
	echoes = program{`cat; exit 5`, func(_ context.Context, p *fake.Process) int {
		_, _ = io.Copy(p.Stdout, p.Stdin)
		return 5
	}}
	// measures ends with code 4 after its terminal has had both sizes.
	measures = program{`until [ "$(stty size)" = "33 77" ]; do sleep 0.05; done; echo first; ` +
		`until [ "$(stty size)" = "44 88" ]; do sleep 0.05; done; exit 4`, measureTerminal}
	// lineEcho responds to each line of its input, and ends with code 6 at the end of the input.
	lineEcho = program{`echo ready; while read line; do echo "got $line"; done; echo end; exit 6`, func(_ context.Context, p *fake.Process) int {
		print(p.Stdout, "ready\n")
		for lines := bufio.NewScanner(p.Stdin); lines.Scan(); {
			fmt.Fprintf(p.Stdout, "got %s\n", lines.Text())
		}
		print(p.Stdout, "end\n")
		return 6
	}}
	// echoServer echoes data at echoPort.
	echoServer = program{`echo ready; while true; do nc -l -p 8080 -e cat; done`, unprepared.run}
)

func measureTerminal(ctx context.Context, p *fake.Process) int {
	wanted := []fake.TerminalSize{{Width: 77, Height: 33}, {Width: 88, Height: 44}}
	for i, want := range wanted {
		for got := (fake.TerminalSize{}); got != want; {
			select {
			case got = <-p.Resize:
			case <-ctx.Done():
				return 1
			}
		}
		if i == 0 {
			print(p.Stdout, "first\n")
		}
	}
	return 4
}

// Ports serves the suite's port in each pod. Use it as Ports of a fake.Config.
func Ports(_ context.Context, _ fake.PodIdentity, port int) (net.Conn, error) {
	if port != echoPort {
		return nil, fmt.Errorf("dial tcp4 127.0.0.1:%d: %w", port, syscall.ECONNREFUSED)
	}
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		_, _ = io.Copy(far, far)
	}()
	return near, nil
}

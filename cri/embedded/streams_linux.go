package embedded

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/cri/fake"
)

// hostStreams connects the streams of a fake.Process with the descriptors of a command, or its
// terminal.
type hostStreams struct {
	commandEnds []*os.File // the command's ends
	stdin       *os.File   // the command's input, or nil
	master      *os.File   // of the terminal, or nil
	out         sync.WaitGroup
	end         func() // stops follow
}

// connectHost sets the streams of a command before its start. Without a terminal os/exec copies
// the output.
func connectHost(cmd *exec.Cmd, p *fake.Process) (*hostStreams, error) {
	s := &hostStreams{end: func() {}}
	if p.TTY {
		return s, s.openTerminal(cmd)
	}
	cmd.Stdout, cmd.Stderr = p.Stdout, p.Stderr
	if _, none := p.Stdin.(fake.NoInput); none {
		return s, nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.commandEnds, s.stdin, cmd.Stdin = []*os.File{read}, write, read
	return s, nil
}

func (s *hostStreams) openTerminal(cmd *exec.Cmd) error {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("allocate a terminal (TTY): %w", err)
	}
	var number int
	err = control(master, func(fd int) error {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return err
	})
	var slave *os.File
	if err == nil {
		slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		master.Close()
		return fmt.Errorf("allocate a terminal (TTY): %w", err)
	}
	s.commandEnds, s.master, s.stdin = []*os.File{slave}, master, master
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	return nil
}

// control calls do with a file's descriptor and leaves the file in the poller.
func control(file *os.File, do func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// closeCommandEnds closes the command's ends in this process, after the command started or failed
// to.
func (s *hostStreams) closeCommandEnds() {
	for _, file := range s.commandEnds {
		file.Close()
	}
}

func (s *hostStreams) copyStreams(p *fake.Process) {
	if _, none := p.Stdin.(fake.NoInput); !none && s.stdin != nil {
		// It ends when p.Stdin ends, with the program.
		go func() {
			_, _ = io.Copy(s.stdin, p.Stdin)
			if s.master == nil {
				_ = s.stdin.Close()
			}
		}()
	}
	if s.master == nil {
		return
	}
	ended := make(chan struct{})
	s.end = func() { close(ended) }
	s.out.Go(func() {
		// It ends with EIO when no process has the terminal open.
		_, _ = io.Copy(p.Stdout, s.master)
	})
	s.out.Go(func() { s.follow(ended, p.Resize) })
}

func (s *hostStreams) follow(ended <-chan struct{}, sizes <-chan fake.TerminalSize) {
	for {
		select {
		case <-ended:
			return
		case size := <-sizes:
			// It fails after the terminal was closed, which is harmless.
			_ = control(s.master, func(fd int) error {
				return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: size.Width, Row: size.Height})
			})
		}
	}
}

// close waits for the output. All processes of the command must have ended.
func (s *hostStreams) close() {
	s.end()
	s.out.Wait()
	if s.stdin != nil {
		_ = s.stdin.Close()
	}
}

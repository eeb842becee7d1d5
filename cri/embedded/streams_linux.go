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

// hostStreams stand between the streams of a fake.Process and the descriptors of a
// command: its input, and its terminal if it has one.
type hostStreams struct {
	commandEnds []*os.File // the command's ends
	stdin       *os.File   // where its input goes; nil: nowhere
	master      *os.File   // of the terminal; nil: none
	out         sync.WaitGroup
	end         func() // of follow
}

// connectHost gives a command that is about to start its streams. Output without
// a terminal is carried by os/exec.
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

// openTerminal allocates a terminal and gives it to the command.
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

// control calls do with a file's descriptor, which stays with the poller.
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

// closeCommandEnds lets go of the command's ends, which it has by now or never will.
func (s *hostStreams) closeCommandEnds() {
	for _, file := range s.commandEnds {
		file.Close()
	}
}

// copyStreams begins to copy the streams of a command that has been started.
func (s *hostStreams) copyStreams(p *fake.Process) {
	if _, none := p.Stdin.(fake.NoInput); !none && s.stdin != nil {
		// It ends with p.Stdin, which ends with the program.
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
		// It ends with an error (EIO) when nobody has the terminal any more.
		_, _ = io.Copy(p.Stdout, s.master)
	})
	s.out.Go(func() { s.follow(ended, p.Resize) })
}

// follow sets the sizes of the terminal.
func (s *hostStreams) follow(ended <-chan struct{}, sizes <-chan fake.TerminalSize) {
	for {
		select {
		case <-ended:
			return
		case size := <-sizes:
			// A terminal that is gone has no size.
			_ = control(s.master, func(fd int) error {
				return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: size.Width, Row: size.Height})
			})
		}
	}
}

// close is for when nothing of the command is left: it waits for the output.
func (s *hostStreams) close() {
	s.end()
	s.out.Wait()
	if s.stdin != nil {
		_ = s.stdin.Close()
	}
}

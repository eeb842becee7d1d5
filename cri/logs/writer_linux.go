package logs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// writerOf reports whether a process has a file open for writing: the kernel grants a read lease
// only if none has. The lease is released at once. It delays no process, because rotated files are
// not opened for writing.
func writerOf(file *os.File) writer {
	fd := file.Fd()
	_, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK)
	if errors.Is(err, unix.EAGAIN) {
		return writerOpen
	}
	if err != nil {
		// A filesystem without leases, or a file of another user.
		return writerUnknown
	}
	_, _ = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
	return writerClosed
}

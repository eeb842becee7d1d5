package logs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// writerOf tells whether anybody can still write to a file. The kernel says so:
// it grants a read lease on a file only while nobody has it open for writing. The
// lease is given back at once; nobody opens a rotated file to write to it, so
// nobody has to wait for that.
func writerOf(file *os.File) writer {
	fd := file.Fd()
	_, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK)
	if errors.Is(err, unix.EAGAIN) {
		return writerThere
	}
	if err != nil {
		// A file system without leases, or a file of somebody else.
		return writerUnknown
	}
	_, _ = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
	return writerGone
}

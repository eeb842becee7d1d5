package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// removeBridge deletes a bridge and the host ends of the pods' interfaces. It uses netlink, so
// that it does not need the ip program.
func removeBridge(name string) error {
	ports, err := os.ReadDir(filepath.Join("/sys/class/net", name, "brif"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var errs []error
	for _, port := range ports {
		errs = append(errs, deleteLink(port.Name()))
	}
	return errors.Join(append(errs, deleteLink(name))...)
}

func linkExists(name string) bool {
	_, err := os.Stat(filepath.Join("/sys/class/net", name))
	return err == nil
}

// deleteLink deletes an interface. A missing interface is no error.
func deleteLink(name string) error {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		if !linkExists(name) {
			return nil
		}
		return err
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	defer unix.Close(fd)
	msg := make([]byte, unix.SizeofNlMsghdr+unix.SizeofIfInfomsg)
	ne := binary.NativeEndian
	ne.PutUint32(msg[0:], uint32(len(msg)))
	ne.PutUint16(msg[4:], unix.RTM_DELLINK)
	ne.PutUint16(msg[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	ne.PutUint32(msg[8:], 1)                                     // sequence
	ne.PutUint32(msg[unix.SizeofNlMsghdr+4:], uint32(ifi.Index)) // ifi_index
	if err := unix.Sendto(fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	reply := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, reply, 0)
	if err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	if n < unix.SizeofNlMsghdr+4 {
		return fmt.Errorf("delete %s: short reply", name)
	}
	// The response is an nlmsgerr, which begins with the negated error number.
	errno := syscall.Errno(-int32(ne.Uint32(reply[unix.SizeofNlMsghdr:])))
	if errno != 0 && errno != unix.ENODEV {
		return fmt.Errorf("delete %s: %w", name, errno)
	}
	return nil
}

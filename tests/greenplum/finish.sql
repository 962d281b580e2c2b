-- Functions of test_session_finishing.py. Both tell the segment that calls them to finish, and give true.
-- At once: this is what the server does when its coordinator says so.
CREATE FUNCTION public.finish_now(empty boolean) RETURNS boolean LANGUAGE plpython3u VOLATILE AS $$
import ctypes
server = ctypes.PyDLL(None)
server.show_gp_role.restype = ctypes.c_char_p
if server.show_gp_role() == b"execute":
    # on Greenplum 6 a byte
    ctypes.c_byte.in_dll(server, "QueryFinishPending").value = 1
return True
$$;
-- Once a process, within so many seconds, by the request that a coordinator sends (FINISH_REQUEST_CODE in pqcomm.h).
CREATE FUNCTION public.finish_within(seconds double precision, empty boolean) RETURNS boolean LANGUAGE plpython3u VOLATILE AS $$
import ctypes, random, struct, subprocess
server = ctypes.PyDLL(None)
server.show_gp_role.restype = ctypes.c_char_p
if server.show_gp_role() == b"execute" and not SD:
    port, pid, key = (ctypes.c_int.in_dll(server, name).value for name in ("PostPortNumber", "MyProcPid", "MyCancelKey"))
    request = "".join("\\x%02x" % byte for byte in struct.pack("!iHHii", 16, 1234, 5677, pid, key))
    script = "exec 3<>/dev/tcp/127.0.0.1/%d; sleep %f; printf '%s' >&3; cat <&3" % (port, random.random() * seconds, request)
    SD["sender"] = subprocess.Popen(["bash", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
return True
$$;

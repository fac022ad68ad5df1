-- ARGV: 1 wait, 2-4 fence. An operator's: whatever the attempt or state.
if not found then return standing({'gone', whole(NOW)}) end
if not is_under(found) then return {'lost', whole(NOW)} end
delete(R)
return {'gone', whole(NOW)}

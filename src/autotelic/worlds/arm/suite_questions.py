# ruff: noqa: E501
"""The questions of the held-out suite, in brief words: what `python -m autotelic.worlds.arm.suite` prints. To find them
takes thousands of episodes; to run them again takes one each."""

DEDUCTION = """\
 move button middle back behind red_sphere open left<scene> green_sphere front_right red_sphere front_middle button<ask> pressed button<where> red_sphere
 close right move button move bin above drawer in_front_of button<scene> red_sphere front_middle bin button drawer<ask> open drawer pressed button<where> red_sphere
 open behind blue_cylinder behind drawer move button front front<scene> blue_cylinder front_middle bin button drawer<ask> inside blue_cylinder drawer near button<where> blue_cylinder
 move yellow_box<scene> blue_cylinder back_right green_sphere back_middle yellow_box back_left<ask> near yellow_box<where> green_sphere
 move yellow_box<scene> yellow_box front_middle yellow_cylinder back_left bin<ask> in_front_of yellow_box bin near yellow_box<where> yellow_box
 behind green_box move yellow_sphere close move button middle<scene> green_box front_right yellow_sphere front_middle button<ask> at green_box right pressed button<where> green_box
 left_of blue_cylinder move green_sphere back open<scene> blue_cylinder front_left blue_sphere back_middle green_sphere back_right<ask> at blue_cylinder left<where> blue_cylinder
 move red_box right_of green_sphere behind red_box home move yellow_box<scene> green_sphere back_right red_box front_left yellow_box back_left<ask> left_of yellow_box red_box<where> red_box
 move green_cylinder left left move green_cylinder<scene> blue_sphere front_left green_cylinder front_middle bin drawer<ask> left_of green_cylinder drawer<where> blue_sphere
 behind yellow_sphere front right move yellow_sphere down right_of yellow_sphere<scene> yellow_sphere front_middle<ask> at yellow_sphere left<where> yellow_sphere
 close up behind bin back up move blue_box<scene> blue_box front_middle red_sphere front_left bin<ask> at red_sphere front near blue_box<where> red_sphere
 move green_cylinder home move green_cylinder middle move bin<scene> blue_cylinder back_middle green_cylinder front_middle bin<ask> lifted blue_cylinder near bin<where> blue_cylinder
 above green_cylinder on drawer move green_sphere down down close<scene> green_cylinder back_right green_sphere front_middle drawer<ask> near green_sphere right_of green_sphere green_cylinder<where> green_cylinder
 open move bin left move button close right<scene> blue_sphere back_middle green_cylinder back_left bin button<ask> near button<where> green_cylinder
 home left_of button left_of green_cylinder home<scene> green_cylinder back_left button<ask> right_of green_cylinder button<where> green_cylinder
 close in_front_of yellow_cylinder home move button<scene> green_box back_middle green_cylinder back_right yellow_cylinder back_left button<ask> near button right_of green_box yellow_cylinder<where> green_box
 move drawer<scene> blue_sphere front_middle red_box front_left yellow_sphere front_right drawer<ask> near drawer near yellow_sphere<where> yellow_sphere
 move red_box above blue_sphere move blue_sphere middle close<scene> blue_sphere back_middle red_box front_middle yellow_sphere front_left<ask> near blue_sphere<where> yellow_sphere
 move drawer<scene> blue_sphere back_right red_cylinder front_middle drawer<ask> at red_cylinder right near drawer<where> blue_sphere
 move yellow_cylinder<scene> yellow_cylinder front_right button<ask> in_front_of yellow_cylinder button near yellow_cylinder<where> yellow_cylinder
 left_of blue_box behind red_box move blue_box middle<scene> blue_box back_left blue_sphere front_middle red_box front_left bin<ask> near blue_box<where> blue_sphere
 up behind bin move blue_box<scene> blue_box back_middle blue_cylinder back_left bin button<ask> near blue_box<where> blue_box
 right_of yellow_cylinder right_of yellow_cylinder middle left front move yellow_cylinder<scene> yellow_cylinder front_right<ask> at yellow_cylinder front<where> yellow_cylinder
 move bin move yellow_sphere open above drawer move yellow_sphere<scene> blue_cylinder front_left yellow_sphere front_middle bin drawer<ask> in_front_of blue_cylinder yellow_sphere near yellow_sphere<where> yellow_sphere
 move red_cylinder middle in_front_of red_cylinder move red_cylinder open close<scene> red_cylinder back_middle<ask> at red_cylinder front near red_cylinder<where> red_cylinder
 move red_box<scene> green_cylinder front_right green_sphere back_middle red_box back_right button<ask> near red_box<where> green_sphere
 middle right home left move blue_box front<scene> blue_box front_middle<ask> near blue_box<where> blue_box
 home right_of green_cylinder move green_cylinder<scene> blue_sphere back_middle green_box front_right green_cylinder back_right<ask> near green_cylinder<where> blue_sphere
 behind drawer left_of red_sphere move drawer back<scene> red_sphere back_right drawer<ask> near drawer<where> red_sphere
 back right_of blue_sphere front right back right<scene> blue_sphere back_middle red_box back_right button<ask> behind red_box blue_sphere<where> red_box
 move red_sphere close close<scene> red_sphere back_right<ask> at red_sphere back near red_sphere<where> red_sphere
 right_of yellow_box move blue_box down right<scene> blue_box front_middle yellow_box back_middle<ask> at yellow_box left<where> blue_box
 middle right move bin<scene> red_cylinder front_left bin drawer<ask> left_of red_cylinder bin near bin<where> red_cylinder
 on red_cylinder close move blue_cylinder<scene> blue_cylinder front_right red_cylinder back_right drawer<ask> behind red_cylinder drawer near blue_cylinder<where> red_cylinder
 move button<scene> blue_sphere back_middle button<ask> at blue_sphere middle near button<where> blue_sphere
 move drawer move bin open<scene> blue_cylinder front_left red_sphere front_middle bin drawer<ask> near drawer right_of red_sphere drawer<where> blue_cylinder
 move bin above bin move blue_cylinder back move drawer<scene> blue_cylinder front_left yellow_box front_middle bin drawer<ask> at blue_cylinder left near drawer<where> blue_cylinder
 move button on yellow_cylinder right move button move button close<scene> green_sphere back_left yellow_cylinder front_middle button<ask> left_of yellow_cylinder green_sphere near button<where> yellow_cylinder
 move green_box right left_of yellow_sphere<scene> green_box back_left yellow_sphere front_middle bin button<ask> behind green_box bin<where> yellow_sphere
 move bin move bin move red_cylinder move green_cylinder on bin<scene> green_cylinder back_middle red_cylinder back_left bin button<ask> right_of red_cylinder button<where> green_cylinder
 behind green_cylinder back move green_cylinder<scene> green_cylinder back_right red_cylinder front_right<ask> in_front_of red_cylinder green_cylinder near green_cylinder<where> red_cylinder
 move yellow_sphere above red_box right_of button<scene> red_box back_right yellow_box back_left yellow_sphere front_middle button<ask> behind yellow_box yellow_sphere<where> yellow_sphere
 on yellow_cylinder home left move yellow_cylinder move yellow_cylinder move green_sphere<scene> green_sphere front_left yellow_cylinder back_middle bin<ask> at green_sphere middle near green_sphere<where> green_sphere
 left middle on bin move button back<scene> blue_cylinder front_middle red_cylinder back_left yellow_sphere back_middle bin button<ask> at red_cylinder back<where> yellow_sphere
 left move drawer front back move yellow_sphere<scene> red_box front_middle yellow_sphere front_left bin drawer<ask> near yellow_sphere<where> red_box
 in_front_of drawer behind drawer left_of red_sphere move yellow_cylinder middle<scene> red_sphere front_middle yellow_cylinder front_left drawer<ask> in_front_of yellow_cylinder drawer<where> red_sphere
 close left back above drawer move drawer move yellow_sphere<scene> red_cylinder front_left yellow_sphere front_middle bin drawer<ask> near yellow_sphere<where> red_cylinder
 middle move blue_box<scene> blue_box front_middle red_sphere front_right drawer<ask> near blue_box right_of red_sphere blue_box<where> red_sphere
 move button left_of drawer move button left_of button back right<scene> green_sphere back_right yellow_cylinder front_right yellow_sphere front_middle button drawer<ask> left_of green_sphere yellow_cylinder near drawer<where> green_sphere
 move green_box right left move red_cylinder<scene> blue_box back_right green_box front_middle red_cylinder front_right button drawer<ask> left_of green_box red_cylinder right_of red_cylinder blue_box<where> green_box
 move bin<scene> blue_cylinder back_middle red_box front_middle bin<ask> near bin<where> blue_cylinder
 move red_sphere behind bin home<scene> red_box front_left red_sphere back_left yellow_cylinder back_middle bin<ask> at red_sphere back at red_sphere middle<where> red_sphere
 move yellow_box move green_box open right left on blue_sphere<scene> blue_sphere front_left green_box back_right yellow_box front_right<ask> lifted yellow_box right_of yellow_box green_box<where> blue_sphere
 move drawer move drawer<scene> green_sphere front_middle button drawer<ask> at green_sphere back near drawer<where> green_sphere
 right back move blue_sphere above blue_box<scene> blue_box front_middle blue_sphere back_left button<ask> right_of blue_sphere button<where> blue_sphere
 move blue_box home move red_sphere close<scene> blue_box front_right red_sphere front_left<ask> behind blue_box red_sphere<where> red_sphere
 move button move button<scene> red_box back_right red_cylinder front_right button drawer<ask> near button<where> red_cylinder
 on blue_cylinder move blue_cylinder move blue_cylinder home home<scene> blue_cylinder back_left button<ask> right_of blue_cylinder button<where> blue_cylinder
 left left_of bin behind bin move green_box on bin<scene> blue_cylinder front_left green_box back_left bin<ask> on green_box blue_cylinder right_of green_box blue_cylinder<where> blue_cylinder
 move blue_sphere move blue_sphere middle open left_of button<scene> blue_sphere front_middle red_sphere back_left button<ask> at blue_sphere front<where> blue_sphere
 close up up move green_box move blue_sphere<scene> blue_sphere front_left green_box back_left yellow_box front_right<ask> near blue_sphere<where> green_box
 close move blue_sphere right_of blue_cylinder<scene> blue_cylinder front_left blue_sphere back_middle<ask> in_front_of blue_cylinder blue_sphere<where> blue_cylinder
 move blue_box move blue_box left middle home up<scene> blue_box front_middle bin<ask> near bin<where> blue_box
 right_of green_sphere behind yellow_sphere left_of yellow_sphere middle up<scene> green_sphere front_left yellow_cylinder back_middle yellow_sphere back_right<ask> at yellow_cylinder front<where> yellow_cylinder
 move green_sphere<scene> blue_sphere front_left green_sphere back_left<ask> near green_sphere<where> green_sphere
 left_of red_box right_of blue_sphere in_front_of drawer middle move red_box<scene> blue_sphere front_middle red_box front_right red_sphere back_right drawer<ask> near drawer near red_box<where> blue_sphere
 right_of button right_of drawer home down move red_cylinder<scene> green_sphere front_right red_cylinder front_middle yellow_cylinder back_right button drawer<ask> near red_cylinder<where> yellow_cylinder
 move drawer left_of blue_sphere move drawer open<scene> blue_sphere front_right red_box front_left drawer<ask> near drawer<where> blue_sphere
 move drawer middle<scene> blue_box front_left red_box front_middle bin drawer<ask> near blue_box near drawer<where> blue_box
 behind red_box right_of red_box left_of drawer up close move drawer<scene> red_box front_right drawer<ask> near drawer<where> red_box
 up on red_sphere close in_front_of bin move red_sphere move bin<scene> red_sphere front_middle bin<ask> in_front_of red_sphere bin near bin<where> red_sphere
 up move button right_of blue_sphere front middle open<scene> blue_sphere front_right button<ask> at blue_sphere left<where> blue_sphere
 move green_box move green_box in_front_of green_box move bin left_of green_box move bin<scene> green_box front_middle bin<ask> at green_box middle near bin<where> green_box
 middle move blue_cylinder right move green_sphere close right_of blue_cylinder<scene> blue_cylinder back_left green_sphere front_middle bin<ask> near bin<where> green_sphere
 move drawer move drawer move blue_box<scene> blue_box back_right button drawer<ask> near drawer<where> blue_box
 right open on blue_cylinder down<scene> blue_cylinder front_right blue_sphere back_left<ask> left_of blue_cylinder blue_sphere near blue_cylinder<where> blue_cylinder
 open move button<scene> blue_box front_middle blue_sphere front_right red_sphere back_right button drawer<ask> near button<where> blue_sphere
 move button down<scene> blue_sphere back_right red_box front_right button drawer<ask> at blue_sphere front near button<where> red_box
 right_of red_sphere left middle close<scene> blue_box back_right red_sphere front_right button drawer<ask> at red_sphere left behind blue_box button<where> red_sphere
 close left right_of drawer move yellow_cylinder<scene> blue_cylinder front_left green_cylinder front_middle yellow_cylinder back_right drawer<ask> at yellow_cylinder front near yellow_cylinder<where> yellow_cylinder
 open up move yellow_cylinder middle open<scene> green_cylinder front_left red_sphere front_middle yellow_cylinder back_left bin<ask> at yellow_cylinder middle right_of red_sphere yellow_cylinder<where> red_sphere
 right_of yellow_box right left_of green_box<scene> green_box back_left red_box front_middle yellow_box back_right<ask> right_of green_box red_box<where> yellow_box
 above green_sphere middle left_of green_sphere move bin close<scene> blue_box back_left green_sphere back_middle bin button<ask> left_of green_sphere button near bin<where> blue_box
 above yellow_sphere right_of yellow_box behind yellow_cylinder back back move yellow_box<scene> yellow_box back_right yellow_cylinder front_middle yellow_sphere front_right button drawer<ask> left_of yellow_cylinder yellow_sphere near yellow_box<where> yellow_cylinder
 left_of drawer move yellow_sphere<scene> yellow_cylinder front_middle yellow_sphere front_right button drawer<ask> left_of yellow_sphere drawer near yellow_sphere<where> yellow_sphere
 above blue_sphere right_of green_sphere open move blue_cylinder move blue_sphere<scene> blue_cylinder back_middle blue_sphere front_right green_sphere back_left<ask> behind green_sphere blue_sphere near blue_sphere<where> green_sphere
 front front on red_cylinder middle left<scene> blue_sphere front_middle green_sphere back_right red_cylinder front_right button drawer<ask> at red_cylinder right near button<where> green_sphere
 front close move drawer close close<scene> blue_cylinder back_right drawer<ask> near drawer<where> blue_cylinder
 back behind blue_sphere behind bin move blue_sphere move button close<scene> blue_sphere back_left bin button<ask> in_front_of blue_sphere button near button<where> blue_sphere
 right move button<scene> blue_box front_middle bin button drawer<ask> at blue_box middle near button<where> blue_box
 left_of drawer close open back move drawer move drawer<scene> red_cylinder front_middle red_sphere front_right yellow_cylinder back_right drawer<ask> near drawer<where> yellow_cylinder
 left right_of yellow_cylinder home move drawer back<scene> green_box front_left yellow_cylinder front_middle bin drawer<ask> at yellow_cylinder middle near drawer<where> green_box
 move yellow_sphere<scene> blue_sphere back_middle red_sphere front_middle yellow_sphere back_right<ask> near yellow_sphere right_of yellow_sphere blue_sphere<where> blue_sphere
 right behind bin right up move bin<scene> blue_cylinder front_middle green_box front_left bin drawer<ask> left_of blue_cylinder bin near bin<where> blue_cylinder
 back right_of green_box right_of green_box move green_box close right_of green_box<scene> green_box front_left<ask> at green_box front near green_box<where> green_box
 move blue_sphere<scene> blue_sphere front_middle bin button drawer<ask> at blue_sphere front near blue_sphere<where> blue_sphere
 move drawer front back<scene> green_box front_middle green_sphere front_left bin drawer<ask> inside green_box drawer near drawer<where> green_box
 move button move button left<scene> yellow_cylinder front_right button<ask> at yellow_cylinder front near button<where> yellow_cylinder
 right_of blue_box left open move yellow_box<scene> blue_box front_left yellow_box back_middle yellow_sphere back_right<ask> in_front_of yellow_sphere blue_box near yellow_box<where> blue_box
 on drawer home right_of drawer move red_sphere left move red_sphere<scene> red_sphere front_right yellow_cylinder front_left yellow_sphere front_middle drawer<ask> right_of yellow_sphere drawer<where> red_sphere
 move yellow_sphere move button<scene> green_sphere front_middle red_box back_left yellow_sphere front_right button<ask> at green_sphere left near button<where> red_box
 in_front_of green_sphere right_of yellow_cylinder move green_sphere close left_of yellow_box<scene> green_sphere back_right yellow_box front_middle yellow_cylinder back_middle<ask> behind yellow_box yellow_cylinder left_of green_sphere yellow_cylinder<where> yellow_box
 move blue_box move blue_box<scene> blue_box back_left<ask> lifted blue_box near blue_box<where> blue_box
 open left_of blue_cylinder move yellow_box close behind blue_cylinder<scene> blue_cylinder back_right yellow_box back_middle<ask> at yellow_box right<where> yellow_box
 move bin<scene> blue_sphere front_middle green_sphere back_middle red_cylinder back_left bin button<ask> at red_cylinder left near bin<where> red_cylinder
 close move button open home<scene> green_cylinder back_left red_sphere back_middle button<ask> behind red_sphere button pressed button<where> green_cylinder
 move yellow_sphere<scene> green_box back_middle yellow_sphere back_left<ask> near yellow_sphere right_of yellow_sphere green_box<where> green_box
 move red_sphere left down left up<scene> green_sphere front_middle red_sphere back_right<ask> right_of red_sphere green_sphere<where> green_sphere
 close move yellow_sphere in_front_of red_cylinder close up<scene> red_cylinder front_right yellow_sphere back_left<ask> behind red_cylinder yellow_sphere<where> yellow_sphere
 on button move yellow_cylinder right close up<scene> green_box back_left yellow_cylinder front_middle button<ask> lifted yellow_cylinder right_of green_box button<where> green_box
"""
ABDUCTION = """\
 up move yellow_cylinder above button<goal> left_of yellow_cylinder red_sphere<scene> red_cylinder back_left red_sphere back_middle yellow_cylinder front_middle bin button
 on red_cylinder down right<goal> behind green_sphere bin<scene> green_sphere back_middle red_cylinder back_left bin
 left_of yellow_sphere on button above yellow_sphere move yellow_sphere right_of blue_cylinder right_of blue_cylinder<goal> at yellow_sphere right<scene> blue_box back_left blue_cylinder back_right yellow_sphere front_middle button
 left right_of green_box middle<goal> right_of green_sphere drawer<scene> green_box front_left green_sphere front_middle bin drawer
 down right_of green_box left move green_cylinder in_front_of green_box right_of green_cylinder<goal> at green_cylinder middle<scene> green_box back_left green_cylinder back_right
 move green_cylinder down left move green_cylinder on green_cylinder move green_cylinder<goal> at green_cylinder back<scene> green_cylinder back_right
 move red_box close right above bin home back<goal> left_of blue_box red_box<scene> blue_box back_middle red_box front_middle red_cylinder front_left bin
 close open move red_sphere above button<goal> left_of red_sphere green_sphere<scene> green_sphere back_middle red_sphere front_middle bin button
 move blue_sphere move yellow_cylinder in_front_of yellow_cylinder right_of yellow_cylinder<goal> at blue_sphere middle<scene> blue_sphere front_left red_box back_left yellow_cylinder back_middle bin
 move green_cylinder back move green_cylinder middle close move red_box<goal> left_of blue_box green_cylinder<scene> blue_box front_middle green_cylinder back_left red_box back_middle bin button
 move red_sphere left left move red_sphere<goal> at red_sphere left<scene> red_sphere front_middle bin drawer
 move yellow_sphere behind drawer on yellow_sphere right_of drawer move yellow_sphere above yellow_sphere<goal> at yellow_sphere middle<scene> yellow_sphere back_right drawer
 left_of yellow_cylinder in_front_of green_box back move blue_sphere left_of green_box right<goal> behind blue_sphere yellow_cylinder<scene> blue_sphere front_left green_box front_right yellow_cylinder front_middle
 move red_cylinder middle move red_box<goal> left_of blue_cylinder red_cylinder<scene> blue_cylinder back_left red_box back_right red_cylinder front_left
 right_of green_cylinder left_of green_cylinder right home open open<goal> right_of blue_sphere green_cylinder<scene> blue_sphere back_left green_cylinder back_middle red_sphere front_right
 middle move blue_cylinder left behind green_sphere<goal> left_of blue_cylinder blue_sphere<scene> blue_cylinder back_middle blue_sphere front_middle green_sphere front_left bin
 front right_of green_sphere above blue_sphere right_of blue_sphere on blue_sphere move blue_sphere<goal> at green_sphere left<scene> blue_sphere back_left green_sphere back_right
 move red_box move red_box middle left close home<goal> behind blue_box red_box<scene> blue_box back_left green_cylinder front_middle red_box back_middle bin
 move red_sphere move yellow_cylinder back back<goal> at red_sphere left<scene> green_sphere front_middle red_sphere back_middle yellow_cylinder back_left
 back behind drawer move blue_sphere middle left_of red_box move blue_sphere<goal> at blue_sphere middle<scene> blue_sphere back_right red_box front_right drawer
 move red_cylinder move blue_sphere move green_box move blue_sphere<goal> at red_cylinder middle<scene> blue_sphere back_right green_box front_left red_cylinder back_left
 home in_front_of yellow_box move yellow_box move green_box left<goal> behind yellow_box green_box<scene> green_box front_right yellow_box front_left
 up left_of yellow_sphere move bin close down<goal> at yellow_sphere middle<scene> red_cylinder front_middle yellow_sphere front_left bin drawer
 close move red_sphere in_front_of yellow_sphere front above yellow_box<goal> at red_sphere back<scene> red_sphere back_right yellow_box front_middle yellow_sphere front_right
 front back right_of green_box middle in_front_of green_cylinder<goal> at green_box middle<scene> green_box back_right green_cylinder front_left
 move red_cylinder middle<goal> at red_cylinder middle<scene> blue_cylinder back_middle red_cylinder back_left button
 move green_cylinder move green_cylinder left<goal> at red_box left<scene> green_cylinder front_right red_box front_middle drawer
 home close move red_sphere in_front_of red_sphere<goal> in_front_of red_sphere button<scene> red_cylinder back_middle red_sphere front_middle yellow_box back_left bin button
 up move green_box open down move yellow_cylinder home<goal> left_of green_cylinder green_box<scene> green_box front_left green_cylinder back_left yellow_cylinder back_right
 right_of green_sphere left_of green_sphere front down above button<goal> at green_sphere front<scene> blue_box front_middle green_sphere back_right red_cylinder back_left button
 behind blue_cylinder left move blue_cylinder right_of blue_sphere<goal> at blue_cylinder middle<scene> blue_cylinder back_left blue_sphere back_right
 move green_cylinder open move green_box<goal> right_of green_cylinder drawer<scene> blue_box front_left green_box front_right green_cylinder front_middle drawer
 move red_box move yellow_cylinder close left_of yellow_cylinder move yellow_cylinder up<goal> left_of red_box yellow_sphere<scene> red_box back_middle yellow_cylinder back_left yellow_sphere front_middle button
 move red_sphere left move green_sphere<goal> left_of red_sphere green_sphere<scene> green_sphere back_right red_sphere front_right
 middle move yellow_sphere right move bin<goal> behind yellow_sphere red_box<scene> red_box front_left yellow_sphere front_middle bin
 left_of red_box in_front_of button right move red_box left_of yellow_cylinder right_of blue_sphere<goal> at blue_sphere left<scene> blue_sphere front_middle red_box front_right yellow_cylinder back_middle button
 in_front_of blue_cylinder move red_cylinder close on green_box home<goal> right_of blue_cylinder red_cylinder<scene> blue_cylinder back_right green_box front_middle red_cylinder front_right
 move yellow_cylinder left left_of green_sphere right_of green_sphere move yellow_cylinder middle<goal> at yellow_cylinder middle<scene> green_sphere front_left yellow_cylinder back_left bin
 move green_cylinder move blue_cylinder home<goal> at green_cylinder middle<scene> blue_cylinder back_right green_cylinder back_left
 move green_cylinder close middle<goal> at green_cylinder middle<scene> blue_cylinder front_middle green_cylinder front_left bin drawer
 move yellow_sphere move yellow_cylinder middle close home<goal> right_of yellow_cylinder drawer<scene> yellow_cylinder front_middle yellow_sphere front_left drawer
 down move red_cylinder in_front_of red_box front right_of red_box middle<goal> left_of red_box red_cylinder<scene> red_box front_middle red_cylinder back_middle button
 move green_cylinder move button<goal> left_of green_cylinder blue_sphere<scene> blue_sphere back_middle green_cylinder front_middle yellow_box back_left bin button
 open up move red_sphere in_front_of blue_sphere on blue_sphere close<goal> at red_sphere middle<scene> blue_sphere front_middle red_sphere front_left bin drawer
 right_of yellow_box left_of drawer left<goal> left_of yellow_box yellow_cylinder<scene> red_cylinder front_middle yellow_box back_right yellow_cylinder front_right button drawer
 move green_box move drawer move green_box<goal> left_of green_box red_box<scene> green_box back_right red_box front_right button drawer
 move red_box above blue_box move yellow_box<goal> left_of red_box yellow_box<scene> blue_box front_left red_box front_right yellow_box back_right
 move red_cylinder move blue_box open above blue_box close in_front_of red_cylinder<goal> at red_cylinder middle<scene> blue_box front_right red_box back_right red_cylinder front_left drawer
 move yellow_box middle<goal> left_of yellow_cylinder green_cylinder<scene> green_cylinder back_middle yellow_box front_right yellow_cylinder front_middle
 home move button move yellow_sphere right middle above blue_cylinder<goal> at yellow_sphere left<scene> blue_cylinder back_left blue_sphere front_right yellow_sphere back_middle button
 move blue_box move blue_sphere move blue_box middle<goal> at blue_sphere middle<scene> blue_box back_middle blue_cylinder front_right blue_sphere back_right
 open behind button move blue_cylinder close move yellow_sphere left_of blue_cylinder<goal> lifted blue_cylinder<scene> blue_cylinder back_middle yellow_sphere back_right button
 down left_of blue_sphere left move blue_sphere move yellow_cylinder<goal> at blue_sphere left<scene> blue_sphere front_middle yellow_cylinder back_left
 right_of red_cylinder move red_box in_front_of red_sphere open front left_of bin<goal> left_of red_cylinder red_sphere<scene> red_box front_middle red_cylinder back_left red_sphere front_left bin
 move green_sphere up left_of green_cylinder right<goal> left_of blue_sphere green_sphere<scene> blue_sphere front_right green_cylinder back_middle green_sphere back_right
 move blue_cylinder down home move blue_cylinder move yellow_cylinder<goal> in_front_of blue_cylinder drawer<scene> blue_cylinder back_right yellow_box front_right yellow_cylinder front_middle drawer
 move red_cylinder left left_of blue_sphere home middle in_front_of blue_cylinder<goal> at red_cylinder back<scene> blue_cylinder back_left blue_sphere front_left red_cylinder back_middle
 left_of blue_box left middle<goal> left_of blue_cylinder blue_box<scene> blue_box front_left blue_cylinder back_middle green_cylinder back_right
 move button left move yellow_cylinder middle in_front_of button move button<goal> pressed button<scene> yellow_cylinder back_middle button
 move red_cylinder move red_cylinder move button move button close<goal> at red_cylinder middle<scene> green_sphere back_left red_cylinder front_right yellow_sphere back_right button
 close down move red_sphere front right on yellow_cylinder<goal> behind green_box red_sphere<scene> green_box front_right red_sphere front_middle yellow_cylinder back_middle
 move yellow_sphere left_of green_box right_of green_box close in_front_of yellow_sphere<goal> at yellow_sphere middle<scene> green_box front_right green_cylinder back_right yellow_sphere front_left drawer
 move drawer move red_sphere on drawer open<goal> open drawer<scene> red_sphere front_right drawer
 move red_cylinder right move red_cylinder<goal> left_of red_box red_cylinder<scene> green_box back_right red_box front_middle red_cylinder back_middle
 on green_sphere down move button move button close left<goal> in_front_of green_sphere drawer<scene> blue_cylinder front_middle green_sphere back_right button drawer
 move yellow_box move button down open move bin close<goal> left_of yellow_box red_cylinder<scene> red_cylinder back_middle yellow_box front_middle bin button
 left_of yellow_sphere left_of blue_cylinder above yellow_sphere behind blue_cylinder<goal> at yellow_sphere middle<scene> blue_cylinder front_right yellow_box front_middle yellow_sphere front_left
 move red_cylinder move button left_of red_cylinder close move red_cylinder right_of button<goal> in_front_of red_cylinder button<scene> red_cylinder front_right yellow_sphere back_left button
 middle move yellow_sphere on button right right_of green_cylinder<goal> at yellow_sphere middle<scene> green_cylinder back_middle yellow_sphere front_right button
 right_of yellow_cylinder move button close<goal> at yellow_cylinder back<scene> blue_box back_middle red_sphere front_right yellow_cylinder back_right button
 move yellow_box left on yellow_box open left<goal> at yellow_box middle<scene> green_box front_middle red_sphere front_right yellow_box back_right button
 move red_cylinder move red_cylinder move green_cylinder on red_cylinder middle<goal> at red_cylinder middle<scene> blue_cylinder front_middle green_cylinder back_left red_cylinder back_right
 front move red_box open left_of green_sphere middle up<goal> right_of red_box drawer<scene> green_sphere front_left red_box front_middle bin drawer
 move yellow_box left<goal> left_of red_cylinder button<scene> blue_cylinder front_middle red_cylinder back_left yellow_box back_middle bin button
 move green_cylinder down right middle middle close<goal> right_of green_cylinder drawer<scene> green_cylinder front_middle drawer
 move yellow_sphere middle right_of drawer<goal> right_of yellow_sphere drawer<scene> yellow_sphere front_left drawer
 move blue_cylinder middle<goal> left_of blue_cylinder blue_sphere<scene> blue_cylinder back_right blue_sphere front_right
 move red_box left_of red_box move blue_cylinder up right behind red_cylinder<goal> right_of red_box drawer<scene> blue_cylinder back_right red_box front_middle red_cylinder front_right drawer
 move green_cylinder close close behind green_cylinder right<goal> behind green_cylinder yellow_cylinder<scene> green_cylinder back_left yellow_box front_right yellow_cylinder back_middle
 right up open move yellow_cylinder right_of yellow_box behind red_sphere<goal> left_of yellow_box yellow_cylinder<scene> red_sphere front_left yellow_box back_right yellow_cylinder front_right drawer
 right_of button move yellow_box right_of drawer<goal> right_of green_cylinder drawer<scene> green_cylinder front_middle yellow_box front_right button drawer
 move blue_cylinder left move blue_cylinder right_of green_sphere<goal> left_of blue_cylinder green_sphere<scene> blue_cylinder back_middle green_sphere front_middle button
 move red_cylinder close right_of green_cylinder<goal> behind red_cylinder green_box<scene> green_box front_right green_cylinder back_middle red_cylinder front_left
 in_front_of green_cylinder move blue_box home right behind button back<goal> behind green_cylinder red_cylinder<scene> blue_box front_middle green_cylinder back_left red_cylinder back_middle bin button
 front close move yellow_sphere behind yellow_box behind yellow_sphere<goal> left_of yellow_sphere green_sphere<scene> green_sphere front_right yellow_box front_middle yellow_sphere back_right drawer
 behind red_sphere back move button down<goal> behind yellow_cylinder red_sphere<scene> red_sphere back_middle yellow_cylinder back_right button
 move blue_cylinder front right<goal> left_of green_sphere blue_sphere<scene> blue_cylinder back_left blue_sphere front_middle green_sphere back_middle bin button
 move green_cylinder open left_of yellow_sphere move green_cylinder in_front_of yellow_sphere<goal> behind green_cylinder yellow_sphere<scene> green_cylinder front_middle yellow_sphere front_left
 home middle move red_sphere close move yellow_cylinder in_front_of red_sphere<goal> behind yellow_sphere yellow_cylinder<scene> red_sphere back_middle yellow_cylinder front_right yellow_sphere front_middle
 left_of button right move blue_sphere home<goal> left_of red_cylinder green_cylinder<scene> blue_sphere back_right green_cylinder front_middle red_cylinder back_middle button
 on blue_box move green_cylinder close middle behind bin above bin<goal> behind blue_box green_cylinder<scene> blue_box back_left green_cylinder back_middle green_sphere front_middle bin
 right behind yellow_box move yellow_box middle on yellow_cylinder<goal> right_of yellow_box button<scene> yellow_box back_left yellow_cylinder front_middle button
 behind bin left_of green_box above bin close move bin<goal> left_of yellow_box green_box<scene> blue_box back_left green_box back_middle yellow_box front_middle bin button
 move green_sphere right_of green_sphere left move yellow_cylinder<goal> right_of yellow_cylinder red_sphere<scene> green_sphere front_right red_sphere front_left yellow_cylinder back_left
 right_of red_box left close left close up<goal> left_of green_sphere drawer<scene> green_sphere front_middle red_box front_right red_sphere back_right button drawer
 behind drawer move yellow_cylinder above green_box behind green_box<goal> right_of yellow_cylinder drawer<scene> blue_sphere back_right green_box front_right yellow_cylinder front_middle drawer
 up up move red_cylinder home in_front_of yellow_box middle<goal> right_of red_cylinder button<scene> red_cylinder back_left yellow_box front_middle button
 move blue_box right above blue_box<goal> left_of blue_sphere blue_box<scene> blue_box back_left blue_sphere front_left bin
 move drawer above green_cylinder close middle left<goal> open drawer<scene> blue_cylinder back_right green_cylinder front_right drawer
 move green_box move yellow_sphere move blue_sphere right_of blue_sphere middle behind yellow_sphere<goal> left_of blue_sphere yellow_sphere<scene> blue_sphere front_right green_box back_right yellow_sphere front_middle
 move blue_box in_front_of button move red_cylinder home in_front_of blue_box<goal> right_of red_cylinder button<scene> blue_box back_right blue_cylinder front_middle red_cylinder back_left button
 close back up in_front_of button move yellow_sphere<goal> behind yellow_sphere bin<scene> blue_sphere back_left red_sphere front_middle yellow_sphere back_middle bin button
 middle left_of button move yellow_box move blue_cylinder home open<goal> right_of yellow_box button<scene> blue_cylinder back_middle yellow_box back_left button
 left_of green_sphere middle move yellow_cylinder close right_of drawer close<goal> in_front_of green_sphere yellow_cylinder<scene> blue_box back_right green_sphere front_right yellow_cylinder front_middle button drawer
 above yellow_sphere up move red_sphere in_front_of yellow_cylinder in_front_of yellow_sphere middle<goal> right_of red_sphere drawer<scene> red_sphere front_left yellow_cylinder front_right yellow_sphere back_right drawer
 right_of blue_box middle right_of bin<goal> behind green_sphere bin<scene> blue_box back_left green_sphere back_middle yellow_cylinder front_middle bin button
 move drawer right_of yellow_cylinder home right_of yellow_cylinder close<goal> behind blue_sphere drawer<scene> blue_sphere back_right yellow_cylinder front_right drawer
 above green_cylinder middle move green_cylinder close move bin<goal> inside green_cylinder bin<scene> green_cylinder back_left yellow_box back_middle bin
 left_of yellow_sphere left left_of yellow_sphere in_front_of yellow_sphere home close<goal> right_of yellow_sphere drawer<scene> yellow_sphere front_left bin drawer
 left move red_sphere left_of red_cylinder move red_sphere close<goal> left_of yellow_cylinder red_sphere<scene> red_cylinder front_right red_sphere front_left yellow_cylinder back_left
"""
